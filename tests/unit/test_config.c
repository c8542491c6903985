#include "test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/word.h"
#include "daemon/config.h"
#include "daemon/config_key.h"
#include "daemon/units.h"

enum { WORDS = 8 };

/* Loads with these words; the message of a failure goes to message. */
static int load(const char *const words[WORDS], struct config *c, char message[256])
{
    char *argv[WORDS + 2] = { "serve" };
    struct err e = { 0 };
    int argc = 1, first;

    for (; argc <= WORDS && words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    int r = config_load(argc, argv, c, &first, &e);
    snprintf(message, 256, "%s", e.msg);
    return r < 0 ? r : first;
}

static void write_file(char path[32], const char *text)
{
    strcpy(path, "/tmp/sandglass-test.XXXXXX");
    auto_close int fd = mkstemp(path);
    EXPECT_INT(write(fd, text, strlen(text)), strlen(text));
}

TEST(config_gives_each_home_a_control_group_of_its_own)
{
    const char *const homes[] = { "--home=/tmp/one", "--home=/tmp/two" };
    struct config c[2], usual, told;
    char message[256];

    for (size_t i = 0; i < 2; i++) {
        EXPECT_INT(load((const char *const[WORDS]){ "--config=", homes[i] }, &c[i], message), 3);
        EXPECT_INT(strncmp(c[i].cgroup_name, "sandglass-", 10), 0);
    }
    EXPECT_TRUE(strcmp(c[0].cgroup_name, c[1].cgroup_name) != 0);
    EXPECT_INT(load((const char *const[WORDS]){ "--config=" }, &usual, message), 2);
    EXPECT_STR(str_of(usual.cgroup_name), "sandglass");
    EXPECT_INT(load((const char *const[WORDS]){ "--config=", "--home=/tmp/one", "--cgroup-name=mine" }, &told, message), 4);
    EXPECT_STR(str_of(told.cgroup_name), "mine");
    for (size_t i = 0; i < 2; i++)
        config_done(&c[i]);
    config_done(&usual);
    config_done(&told);
}

TEST(config_defaults_are_valid_and_documented)
{
    struct config c;
    char message[256];

    EXPECT_INT(load((const char *const[WORDS]){ "--config=" }, &c, message), 2);
    EXPECT_STR(str_of(message), "");
    EXPECT_STR(str_of(c.listen), "127.0.0.1:8080");
    EXPECT_INT(c.box_memory_bytes, 1024 * MiB);
    EXPECT_INT(c.box_cpu_milli, 2000);
    EXPECT_INT(c.durability, 1);
    EXPECT_INT(c.box_network, BOX_NETWORK_NONE);
    EXPECT_INT(c.output_head_bytes, LIMIT_OUTPUT_HEAD);
    EXPECT_INT(c.output_kept_bytes, LIMIT_OUTPUT_KEPT);
    EXPECT_TRUE(c.box_sudo && !c.test_backends);
    config_done(&c);

    for (const struct config_key *k = config_keys; k->name; k++) {
        EXPECT_TRUE(k->help && *k->help);
        EXPECT_TRUE(k->def || (k->def_fn && k->def_text));
    }
}

TEST(config_order_is_default_file_environment_flag)
{
    char path[32], message[256];
    struct config c;

    write_file(path, "# all three are set here\nbox.pids = 100\nbox.open_files = 100 # why not\npool.size=7\n");
    setenv("SANDGLASS_BOX_PIDS", "200", 1);
    setenv("SANDGLASS_BOX_OPEN_FILES", "200", 1);
    EXPECT_INT(load((const char *const[WORDS]){ "--config", path, "--box-pids", "300", "word" }, &c, message), 5);
    EXPECT_STR(str_of(message), "");
    EXPECT_INT(c.box_pids, 300);
    EXPECT_INT(c.box_open_files, 200);
    EXPECT_INT(c.pool_size, 7);
    EXPECT_STR(str_of(c.file), path);
    config_done(&c);
    unsetenv("SANDGLASS_BOX_PIDS");
    unsetenv("SANDGLASS_BOX_OPEN_FILES");
    unlink(path);
}

TEST(config_errors_in_a_file_name_the_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "\nbox.memry = 1g\n", ":2: unknown key 'box.memry'; did you mean 'box.memory'?" },
        { "colour = red\n", ":1: unknown key 'colour'; 'sandglass serve --help' lists them" },
        { "box.memory = 1q\n", ":1: box.memory = '1q': must be a size such as 512m or 2g, from 16m to 16t" },
        { "box.memory = 1m", ":1: box.memory = '1m': must be a size" },
        { "box.ttl = 300", ":1: box.ttl = '300': must be a time such as 250ms, 30s or 5m, from 0 to 366d" },
        { "durability = always\n", ":1: durability = 'always': must be one of none|batch|step" },
        { "box.sudo = maybe\n", "must be true or false" },
        { "listen = 8080\n", "must be HOST:PORT" },
        { "mount.roots = data\n", "must be absolute paths" },
        { "pool.size = 1\n\npool.size = 2\n", ":3: pool.size stands already in line 1" },
        { "just words\n", ":1: 'just words': a line is 'key = value'" },
        { "call.timeout = 2m\ncall.timeout_max = 1m\n", "call.timeout = 2m is more than call.timeout_max = 1m" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[32], message[256];
        struct config c;
        write_file(path, cases[i].text);
        EXPECT_TRUE(load((const char *const[WORDS]){ "--config", path }, &c, message) < 0);
        if (!strstr(message, cases[i].says))
            EXPECT_STR(str_of(message), cases[i].says);
        unlink(path);
    }
}

TEST(config_errors_in_flags_and_variables_name_them)
{
    char message[256];
    struct config c;

    EXPECT_TRUE(load((const char *const[WORDS]){ "--config=", "--box-memori=1g" }, &c, message) < 0);
    EXPECT_STR(str_of(message), "command line: unknown flag '--box-memori'; did you mean '--box-memory'?");
    EXPECT_TRUE(load((const char *const[WORDS]){ "--config=", "--listen" }, &c, message) < 0);
    EXPECT_STR(str_of(message), "command line: flag --listen needs a value");
    EXPECT_TRUE(load((const char *const[WORDS]){ "--config=", "--box-cpu", "lots" }, &c, message) < 0);
    EXPECT_STR(str_of(message),
               "flag --box-cpu: box.cpu = 'lots': must be a decimal such as 0.5 or 2, from 0.01 to 1024.0");
    EXPECT_TRUE(load((const char *const[WORDS]){ "--config", "/nowhere/x.conf" }, &c, message) < 0);
    EXPECT_STR(str_of(message), "configuration file '/nowhere/x.conf': No such file or directory");

    setenv("SANDGLASS_LISTN", "1.2.3.4:5", 1);
    EXPECT_TRUE(load((const char *const[WORDS]){ "--config=" }, &c, message) < 0);
    EXPECT_STR(str_of(message), "environment: unknown variable 'SANDGLASS_LISTN'; did you mean 'SANDGLASS_LISTEN'?");
    unsetenv("SANDGLASS_LISTN");
}

TEST(config_ignores_variables_of_kubernetes)
{
    char message[256];
    struct config c;

    setenv("SANDGLASS_SERVICE_HOST", "10.0.0.1", 1);
    setenv("SANDGLASS_PORT", "tcp://10.0.0.1:8080", 1);
    setenv("SANDGLASS_URL", "http://127.0.0.1:1", 1);
    EXPECT_INT(load((const char *const[WORDS]){ "--config=" }, &c, message), 2);
    EXPECT_STR(str_of(message), "");
    config_done(&c);
    unsetenv("SANDGLASS_SERVICE_HOST");
    unsetenv("SANDGLASS_PORT");
    unsetenv("SANDGLASS_URL");
}

TEST(config_booleans_as_flags)
{
    char message[256];
    struct config c;

    EXPECT_INT(
        load((const char *const[WORDS]){ "--config=", "--no-box-sudo", "--test-backends", "--", "x" }, &c, message), 5);
    EXPECT_STR(str_of(message), "");
    EXPECT_TRUE(!c.box_sudo && c.test_backends);
    config_done(&c);
    EXPECT_TRUE(load((const char *const[WORDS]){ "--config=", "--no-listen" }, &c, message) < 0);
}

TEST(config_argv_gives_the_same_configuration)
{
    static const char *const head[] = { "role", NULL };
    char message[256];
    struct config c, again;
    struct err e = { 0 };
    int first, argc = 0;

    EXPECT_INT(load((const char *const[WORDS]){ "--config=", "--box-cpu=0.25", "--box-network=full", "--box-ttl=90s",
                                                "--image-roots=/srv/a:/srv/b", "--log-level=debug", "--home=relative" },
                    &c, message),
               8);
    char **argv = config_argv(&c, head);
    while (argv[argc])
        argc++;
    EXPECT_INT(config_load(argc, argv, &again, &first, &e), 0);
    EXPECT_STR(str_of(e.msg), "");
    EXPECT_INT(first, argc);
    EXPECT_INT(again.box_cpu_milli, 250);
    EXPECT_INT(again.box_network, BOX_NETWORK_FULL);
    EXPECT_INT(again.box_ttl_ms, 90000);
    EXPECT_INT(again.log_level, LOG_DEBUG);
    EXPECT_STR(str_of(again.image_roots), "/srv/a:/srv/b");
    EXPECT_STR(str_of(again.home), c.home);
    EXPECT_INT(c.home[0], '/');
    config_argv_free(argv);
    config_done(&c);
    config_done(&again);
}

TEST(units_read_what_people_write)
{
    static const struct {
        int (*parse)(const char *, int64_t *);
        const char *text;
        int64_t want; /* -1: refused */
    } cases[] = {
        { units_size, "512m", 512 << 20 },
        { units_size, "2G", 2LL << 30 },
        { units_size, "64KiB", 65536 },
        { units_size, "10b", 10 },
        { units_size, "7", 7 },
        { units_size, "9000000t", -1 },
        { units_size, "1ib", -1 },
        { units_size, "-1", -1 },
        { units_size, "1mm", -1 },
        { units_size, "", -1 },
        { units_duration, "250ms", 250 },
        { units_duration, "30s", 30000 },
        { units_duration, "5m", 300000 },
        { units_duration, "24h", 86400000 },
        { units_duration, "0", 0 },
        { units_duration, "5", -1 },
        { units_duration, "1.5s", -1 },
        { units_milli, "2", 2000 },
        { units_milli, "0.25", 250 },
        { units_milli, "1.", -1 },
        { units_milli, "1.2345", -1 },
        { units_integer, "99999999999999999999", -1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t got = -1;
        if (cases[i].parse(cases[i].text, &got) < 0)
            got = -1;
        if (got != cases[i].want)
            printf("case %s\n", cases[i].text);
        EXPECT_INT(got, cases[i].want);
    }

    char text[UNITS_TEXT];
    EXPECT_STR(str_of(units_print_size(text, 1536 * MiB)), "1536m");
    EXPECT_STR(str_of(units_print_duration(text, 90000)), "90s");
    EXPECT_STR(str_of(units_print_milli(text, 2000)), "2.0");
    EXPECT_STR(str_of(units_print_size(text, 0)), "0");
}

/* What is taken is written in its normal form; what is not, and would not work, is an error at the start. */
TEST(config_forms_of_what_becomes_of_a_box)
{
    static const struct {
        enum key_form form;
        const char *value, *want;
    } cases[] = {
        { FORM_ZONE, "", "" },
        { FORM_ZONE, "UTC", "UTC" },
        { FORM_ZONE, ":Asia/Tokyo", ":Asia/Tokyo" },
        { FORM_ZONE, "CST-8", "CST-8" },
        { FORM_ZONE, "<+08>-8", "<+08>-8" },
        { FORM_ZONE, "EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0" },
        { FORM_ZONE, "/usr/share/zoneinfo/Asia/Tokyo", "/usr/share/zoneinfo/Asia/Tokyo" },
        { FORM_ZONE, "Asia", NULL },
        { FORM_ZONE, "<+08", NULL },
        { FORM_PORTS, "80, 0081", "80,81" },
        { FORM_PORTS, "80 81", NULL },
        { FORM_FLAGS, " --a  --b='c d' -e=\"f\"", " --a  --b='c d' -e=\"f\"" },
        { FORM_FLAGS, "--a '' --b", NULL },
        { FORM_FLAGS, "--a=\"b", NULL },
        { FORM_PROXY, "u:p@x:y@[::1]:80/", "u:p@x:y@[::1]:80/" },
        { FORM_PROXY, "u:p@[::1:80", NULL },
        { FORM_TEMPLATES, "https://a/ https://b/{?dns}", "https://a/ https://b/{?dns}" },
        { FORM_TEMPLATES, "https://a/\nb", NULL },
        { FORM_WORKSPACE, "/etc/passwd/x", NULL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *got = config_form(cases[i].form, cases[i].value);
        if (!got != !cases[i].want)
            printf("case %s\n", cases[i].value);
        EXPECT_STR(str_of(got), cases[i].want);
    }
}

TEST(words_with_quotes)
{
    char line[] = "a  'b c'd\t\"e'f\"\n'' g'";
    char *rest = line;

    EXPECT_STR(str_of(word_next(&rest)), "a");
    EXPECT_STR(str_of(word_next(&rest)), "b cd");
    EXPECT_STR(str_of(word_next(&rest)), "e'f");
    EXPECT_STR(str_of(word_next(&rest)), "");
    EXPECT_TRUE(!word_next(&rest));
    EXPECT_TRUE(!rest);
    EXPECT_TRUE(!word_next(&rest));
}
