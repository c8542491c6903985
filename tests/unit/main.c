#include "test.h"

int test_failures;
extern const struct test *const __start_tests[], *const __stop_tests[];

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct test *const *t = __start_tests; t < __stop_tests; t++) {
        if (argc > 1 && !strstr((*t)->name, argv[1]))
            continue;
        int before = test_failures;
        (*t)->run();
        bool ok = test_failures == before;
        printf("%s %s\n", ok ? "ok  " : "FAIL", (*t)->name);
        ok ? passed++ : failed++;
    }
    printf("unit: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
