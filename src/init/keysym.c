#include "init/keysym.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/auto.h"

static const struct {
    const char *name;
    uint32_t sym;
} keys[] = {
    /* clang-format off */
    { "enter", 0xff0d }, { "return", 0xff0d }, { "tab", 0xff09 }, { "space", 0x20 }, { "backspace", 0xff08 },
    { "delete", 0xffff }, { "del", 0xffff }, { "escape", 0xff1b }, { "esc", 0xff1b }, { "insert", 0xff63 },
    { "home", 0xff50 }, { "end", 0xff57 }, { "pageup", 0xff55 }, { "pgup", 0xff55 }, { "page_up", 0xff55 },
    { "prior", 0xff55 }, { "pagedown", 0xff56 }, { "pgdn", 0xff56 }, { "page_down", 0xff56 }, { "next", 0xff56 },
    { "left", 0xff51 }, { "up", 0xff52 }, { "right", 0xff53 }, { "down", 0xff54 }, { "arrowleft", 0xff51 },
    { "arrowup", 0xff52 }, { "arrowright", 0xff53 }, { "arrowdown", 0xff54 },
    { "shift", 0xffe1 }, { "shiftleft", 0xffe1 }, { "shift_l", 0xffe1 }, { "shiftright", 0xffe2 }, { "shift_r", 0xffe2 },
    { "ctrl", 0xffe3 }, { "control", 0xffe3 }, { "ctrlleft", 0xffe3 }, { "control_l", 0xffe3 }, { "ctrlright", 0xffe4 },
    { "control_r", 0xffe4 }, { "alt", 0xffe9 }, { "altleft", 0xffe9 }, { "alt_l", 0xffe9 }, { "altright", 0xffea },
    { "alt_r", 0xffea }, { "altgr", 0xfe03 }, { "option", 0xffe9 }, { "optionleft", 0xffe9 }, { "optionright", 0xffea },
    { "win", 0xffeb }, { "winleft", 0xffeb }, { "winright", 0xffec }, { "super", 0xffeb }, { "super_l", 0xffeb },
    { "super_r", 0xffec }, { "meta", 0xffe7 }, { "command", 0xffeb }, { "cmd", 0xffeb }, { "apps", 0xff67 },
    { "menu", 0xff67 }, { "capslock", 0xffe5 }, { "caps_lock", 0xffe5 }, { "numlock", 0xff7f }, { "num_lock", 0xff7f },
    { "scrolllock", 0xff14 }, { "scroll_lock", 0xff14 }, { "pause", 0xff13 }, { "print", 0xff61 },
    { "printscreen", 0xff61 }, { "prntscrn", 0xff61 }, { "prtsc", 0xff61 }, { "prtscr", 0xff61 }, { "help", 0xff6a },
    { "clear", 0xff0b }, { "select", 0xff60 }, { "execute", 0xff62 }, { "modechange", 0xff7e }, { "add", 0xffab },
    { "subtract", 0xffad }, { "multiply", 0xffaa }, { "divide", 0xffaf }, { "decimal", 0xffae }, { "separator", 0xffac },
    { "kana", 0xff2d }, { "kanji", 0xff21 }, { "hangul", 0xff31 }, { "hanguel", 0xff31 }, { "hanja", 0xff34 },
    { "junja", 0xff38 }, { "convert", 0xff23 }, { "nonconvert", 0xff22 }, { "yen", 0xa5 },
    { "volumedown", 0x1008ff11 }, { "volumemute", 0x1008ff12 }, { "volumeup", 0x1008ff13 }, { "playpause", 0x1008ff14 },
    { "stop", 0x1008ff15 }, { "prevtrack", 0x1008ff16 }, { "nexttrack", 0x1008ff17 }, { "browserhome", 0x1008ff18 },
    { "launchmail", 0x1008ff19 }, { "browsersearch", 0x1008ff1b }, { "browserback", 0x1008ff26 },
    { "browserforward", 0x1008ff27 }, { "browserstop", 0x1008ff28 }, { "browserrefresh", 0x1008ff29 },
    { "sleep", 0x1008ff2f }, { "browserfavorites", 0x1008ff30 }, { "launchmediaselect", 0x1008ff32 },
    { "launchapp1", 0x1008ff40 }, { "launchapp2", 0x1008ff41 }, { "final", 0 }, { "fn", 0 },
    /* clang-format on */
};

uint32_t keysym_of_char(uint32_t c)
{
    if (c == '\n' || c == '\r')
        return 0xff0d;
    if (c == '\t')
        return 0xff09;
    if (c == '\b')
        return 0xff08;
    if (c == 0x1b)
        return 0xff1b;
    if ((c >= 0x20 && c < 0x7f) || (c >= 0xa0 && c <= 0xff))
        return c;
    return c > 0xff && c <= 0x10ffff ? 0x01000000 + c : 0;
}

/* "f1" to "f24", "num0" to "num9" */
static uint32_t numbered(struct str name)
{
    char text[8] = "";
    int n, used = 0;

    if (name.n >= sizeof text)
        return 0;
    memcpy(text, name.p, name.n);
    if (sscanf(text, "%*1[fF]%d%n", &n, &used) == 1 && (size_t)used == name.n && n >= 1 && n <= 24)
        return 0xffbe + (uint32_t)n - 1;
    if (strncasecmp(text, "num", 3) == 0 && name.n == 4 && text[3] >= '0' && text[3] <= '9')
        return 0xffb0 + (uint32_t)(text[3] - '0');
    return 0;
}

uint32_t keysym_of(struct str name)
{
    uint32_t c = 0;
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strlen(keys[i].name) == name.n && strncasecmp(keys[i].name, name.p, name.n) == 0)
            return keys[i].sym;
    if (!name.n)
        return 0;
    /* one character, in UTF-8 */
    unsigned char b = (unsigned char)name.p[0];
    n = b < 0x80 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 0;
    if (n != name.n)
        return numbered(name);
    c = n == 1 ? b : b & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)name.p[i] & 0x3f);
    return keysym_of_char(c);
}
