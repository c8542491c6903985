/* Files of web/, as bytes of the program: there is nothing to install beside it, and no other site to load them from.
 */
#include <stdlib.h>

#include "base/auto.h"
#include "surface/terminal.h"

#define FILE_BYTES(symbol, path)                                                                                       \
    __asm__(".section .rodata\n.balign 16\n" #symbol ":\n.incbin \"" path "\"\n" #symbol                               \
            "_end:\n.byte 0\n.previous\n");                                                                            \
    extern const char symbol[], symbol##_end[]

FILE_BYTES(web_terminal_html, "web/terminal/terminal.html");
FILE_BYTES(web_terminal_js, "web/terminal/terminal.js");
FILE_BYTES(web_xterm_js, "build/web/xterm.js");
FILE_BYTES(web_xterm_css, "build/web/xterm.css");
FILE_BYTES(web_fit_js, "build/web/addon-fit.js");
FILE_BYTES(web_unicode_js, "build/web/addon-unicode11.js");
FILE_BYTES(web_vnc_html, "web/vnc/vnc.html");
FILE_BYTES(web_vnc_js, "web/vnc/vnc.js");
FILE_BYTES(web_login_js, "web/page/login.js");
FILE_BYTES(web_novnc_tar, "build/web/novnc.tar");

struct str web_file(const char *name)
{
    const struct {
        const char *name, *from, *to;
    } files[] = {
        { "terminal.html", web_terminal_html, web_terminal_html_end },
        { "terminal.js", web_terminal_js, web_terminal_js_end },
        { "xterm.js", web_xterm_js, web_xterm_js_end },
        { "xterm.css", web_xterm_css, web_xterm_css_end },
        { "addon-fit.js", web_fit_js, web_fit_js_end },
        { "addon-unicode11.js", web_unicode_js, web_unicode_js_end },
        { "vnc.html", web_vnc_html, web_vnc_html_end },
        { "vnc.js", web_vnc_js, web_vnc_js_end },
        { "login.js", web_login_js, web_login_js_end },
        { "novnc.tar", web_novnc_tar, web_novnc_tar_end },
    };

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (strcmp(files[i].name, name) == 0)
            return (struct str){ files[i].from, (size_t)(files[i].to - files[i].from) };
    return STR("");
}

/* As tar's format ustar has it: a block of 512 bytes with name and size, then the file in blocks of 512. Ours has no
 * name of more than 100 bytes. */
struct str web_archived(struct str tar, struct str path)
{
    while (tar.n >= 512 && tar.p[0]) {
        size_t size = strtoul(tar.p + 124, NULL, 8), whole = 512 + ((size + 511) & ~(size_t)511);
        if (whole > tar.n)
            break;
        if (str_eq((struct str){ tar.p, strnlen(tar.p, 100) }, path))
            return (struct str){ tar.p + 512, size };
        tar = (struct str){ tar.p + whole, tar.n - whole };
    }
    return STR("");
}
