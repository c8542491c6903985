/* Tokens against the vectors of the RFCs, keys and tickets, quotas, secrets: the parts that need no server. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "access/jwt.h"
#include "access/key.h"
#include "access/ticket.h"
#include "base/auto.h"
#include "session/secret_stream.h"
#include "session/tenant.h"
#include "test.h"

static const struct jwt_rules rules = { .skew_s = 5, .role = ROLE_OPERATOR };

static int verify(const char *jwk, const char *token, int64_t wall_s, struct who *who, struct err *e)
{
    struct jwt_keys *keys;
    int64_t until;

    if (jwt_keys_read(str_of(jwk), &keys, e) < 0)
        return -1;
    int r = jwt_verify(keys, &rules, str_of(token), wall_s * 1000000, who, &until, e);
    jwt_keys_free(keys);
    return r;
}

/* RFC 7515, A.3. Its token expired in 2011. */
TEST(jwt_es256_vector_of_the_rfc)
{
    static const char jwk[] = "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                              "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}";
    static const char token[] =
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        "cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    struct who who;
    struct err e;

    EXPECT_INT(verify(jwk, token, 1300819000, &who, &e), 0);
    EXPECT_INT(who.role, ROLE_OPERATOR);
    EXPECT_TRUE(verify(jwk, token, 1300819386, &who, &e) < 0);
    EXPECT_TRUE(strstr(e.msg, "expired") != NULL);
}

/* RFC 8037, A.4: the signature fits, what is signed is no JSON. */
TEST(jwt_eddsa_vector_of_the_rfc)
{
    static const char jwk[] =
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}";
    static const char token[] =
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4"
        "iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    char other[sizeof token];
    struct who who;
    struct err e;

    EXPECT_TRUE(verify(jwk, token, 1, &who, &e) < 0);
    EXPECT_TRUE(strstr(e.msg, "claims are not a JSON object") != NULL);
    memcpy(other, token, sizeof token);
    other[25] = other[25] == 'A' ? 'B' : 'A';
    EXPECT_TRUE(verify(jwk, other, 1, &who, &e) < 0);
    EXPECT_TRUE(strstr(e.msg, "no configured key fits") != NULL);
}

TEST(a_set_of_keys_may_have_others_and_what_cannot_be_read_is_named_without_its_surroundings)
{
    static const char ours[] =
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AA\",\"y\":\"AA\"},{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"AA\"},"
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    static const char broken[] = "{\"keys\":[{\"kty\":\"RSA\"}]}";
    struct jwt_keys *keys;
    struct err e;

    EXPECT_INT(jwt_keys_read(str_of(ours), &keys, &e), 0);
    EXPECT_INT(jwt_keys_count(keys), 1);
    jwt_keys_free(keys);
    EXPECT_TRUE(jwt_keys_read(str_of(broken), &keys, &e) < 0);
    EXPECT_STR(str_of(e.msg), "JWT key: a JWK of type RSA is not readable");
}

TEST(key_store_reads_what_others_append_and_skips_a_torn_line)
{
    char home[] = "/tmp/sg-unit-keys-XXXXXX", path[64], text[API_KEY_TEXT], second[API_KEY_TEXT];
    struct api_key ask = { .role = ROLE_VIEWER, .tenant = "acme", .name = "x" };
    const struct api_key *k;
    struct err e;

    EXPECT_TRUE(mkdtemp(home) != NULL);
    snprintf(path, sizeof path, "%s/keys", home);
    struct key_store *a = key_store_new(home), *b = key_store_new(home);
    EXPECT_INT(key_store_refresh(a, &e), 0);
    EXPECT_INT(key_store_add(a, &ask, false, text, &k, &e), 0);
    EXPECT_INT(key_store_refresh(b, &e), 0);
    k = key_store_check(b, str_of(text), 1, &e);
    EXPECT_TRUE(k && strcmp(k->tenant, "acme") == 0 && k->may == MAY_READ);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    EXPECT_INT(write(fd, "{\"key\":\"k-", 10), 10);
    close(fd);
    ask.may = MAY_READ;
    ask.role = ROLE_ADMIN;
    ask.expires_us = 1000;
    EXPECT_INT(key_store_add(b, &ask, false, second, &k, &e), 0);
    EXPECT_INT(key_store_refresh(a, &e), 0);
    EXPECT_TRUE(key_store_check(a, str_of(second), 999, &e) != NULL);
    EXPECT_TRUE(key_store_check(a, str_of(second), 1000, &e) == NULL);
    EXPECT_TRUE(strstr(e.msg, "expired") != NULL);
    EXPECT_INT(key_store_revoke(a, str_of(k->id), false, &e), 0);
    EXPECT_INT(key_store_refresh(b, &e), 0);
    EXPECT_TRUE(key_store_check(b, str_of(second), 1, &e) == NULL);
    EXPECT_INT((long)key_store_count(b), 1);
    key_store_free(a);
    key_store_free(b);
    unlink(path);
    rmdir(home);
}

TEST(a_ticket_is_what_was_signed_and_only_for_its_time)
{
    struct ticket_key key = { "0123456789abcdef" }, other = { "another" };
    struct who who = { .tenant = "acme", .role = ROLE_AGENT, .may = MAY_READ, .box = "b-1", .subject = "joe" }, got;
    struct arena a = { 0 };
    struct err e;
    struct str t = ticket_make(&key, &who, 1000, &a);

    EXPECT_INT(ticket_check(&key, t, 999, &got, &e), 0);
    EXPECT_TRUE(strcmp(got.tenant, "acme") == 0 && strcmp(got.box, "b-1") == 0 && got.role == ROLE_AGENT);
    EXPECT_TRUE(ticket_check(&key, t, 1000, &got, &e) < 0);
    EXPECT_TRUE(ticket_check(&other, t, 999, &got, &e) < 0);
    for (size_t i = 0; i < t.n; i++) { /* no byte of it may be another */
        char *bad = arena_z(&a, t);
        bad[i] = bad[i] == 'A' ? 'B' : 'A';
        struct who w;
        int r = ticket_check(&key, str_of(bad), 999, &w, &e);
        EXPECT_TRUE(r < 0 || (i == t.n - 1 && strcmp(w.tenant, "acme") == 0)); /* the last digit has bits to spare */
    }
    arena_done(&a);
}

TEST(calls_per_second_fill_a_bucket)
{
    struct tenant t = { .name = "x", .quota = { .calls_per_second = 10 } };
    struct err e;
    int64_t now = 1000000;

    for (int i = 0; i < 10; i++)
        EXPECT_INT(tenant_take_call(&t, now, &e), 0);
    EXPECT_TRUE(tenant_take_call(&t, now, &e) < 0);
    EXPECT_INT(t.come_back_ms, 100);
    EXPECT_INT(tenant_take_call(&t, now + 100000, &e), 0);
    EXPECT_TRUE(tenant_take_call(&t, now + 100000, &e) < 0);
    EXPECT_INT(tenant_take_call(&t, now + 60000000, &e), 0);
}

TEST(secrets_go_in_by_name_and_come_out_as_one)
{
    char home[] = "/tmp/sg-unit-secret-XXXXXX", path[64];
    struct tenant us = { .name = "us" }, them = { .name = "them" };
    struct secret ask = { .tenant = "us", .name = "key" };
    struct secret_use use = { &us, "bash:run", NULL };
    struct secrets *s, *again;
    struct arena a = { 0 };
    struct str out;
    struct err e;

    EXPECT_TRUE(mkdtemp(home) != NULL);
    EXPECT_INT(secrets_open(home, "", &s, &e), 0);
    EXPECT_INT(secrets_set(s, &ask, STR("a\"b$c-12345"), &e), 0);
    EXPECT_INT(secrets_expand(s, &use, STR("{\"x\":\"${secret:key}\"}"), SECRET_JSON, &a, &out, &e), 0);
    EXPECT_STR(out, "{\"x\":\"a\\\"b$c-12345\"}");
    EXPECT_STR(secrets_redact(s, &us, out, SECRET_JSON, &a), "{\"x\":\"${secret:key}\"}");
    EXPECT_STR(secrets_redact(s, &us, STR("declare -x A=\"a\\\"b\\$c-12345\""), SECRET_SHELL, &a),
               "declare -x A=\"${secret:key}\"");
    EXPECT_TRUE(secrets_redact(s, &them, out, SECRET_JSON, &a).p == out.p);
    use.tenant = &them;
    EXPECT_TRUE(secrets_expand(s, &use, STR("${secret:key}"), SECRET_PLAIN, &a, &out, &e) < 0);
    EXPECT_INT(secrets_open(home, "", &again, &e), 0);
    EXPECT_TRUE(secrets_find(again, &us, STR("key")) != NULL);
    int fd = memfd_create("t", MFD_CLOEXEC);
    for (int i = 0; i < 200000; i++)
        EXPECT_INT(write(fd, "a\"b$c-12345", 11), 11); /* over two pieces */
    fd = secrets_redact_fd(again, &us, fd);
    char all[4096];
    for (off_t at = 0; pread(fd, all, sizeof all, at) > 0; at += (off_t)sizeof all)
        EXPECT_TRUE(memchr(all, 'c', sizeof all) == NULL);
    EXPECT_INT((long)lseek(fd, 0, SEEK_END), 2200000);
    close(fd);
    secrets_free(s);
    secrets_free(again);
    arena_done(&a);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", home, i ? "secrets" : "secret.key");
        unlink(path);
    }
    rmdir(home);
}

/* However values overlap or a text was cut, no part of one stays that is worth a look. */
TEST(names_take_the_place_of_values)
{
    char home[] = "/tmp/sg-unit-names-XXXXXX", path[64];
    struct tenant us = { .name = "us" };
    static const char *const values[] = { "abcdefgh", "abcdefghijkl", "xyxyxyxy", "kl-12345678", "two\nlines\n" };
    static const struct {
        const char *text, *expect;
        enum secret_form form;
    } cases[] = {
        { "-abcdefgh-", "-${secret:v0}-", SECRET_PLAIN },
        { "abcdefghijkl abcdefgh", "${secret:v1} ${secret:v0}", SECRET_PLAIN },
        { "abcdefghijkl-12345678!", "${secret:v1}${secret:v3}!", SECRET_PLAIN },
        { "xyxyxyxyxyxy.", "${secret:v2}.", SECRET_PLAIN },
        { "two\r\nlines\r\n two\nlines\n two\\nlines\\n", "${secret:v4} ${secret:v4} ${secret:v4}", SECRET_PLAIN },
        { "{\"a\":\"two\\r\\nlines\\r\\n two\\nlines\\n two\\\\nlines\\\\n\"}",
          "{\"a\":\"${secret:v4} ${secret:v4} ${secret:v4}\"}", SECRET_JSON },
        { "B=$'x two\\nlines\\n'", "B=$'x '\"${secret:v4}\"$''", SECRET_ANSI },
        { "..abcdef\n[... 12 bytes omitted ...]\nefgh..", "..${secret:v0}\n[... 12 bytes omitted ...]\n${secret:v0}..",
          SECRET_PLAIN },
        { "..abc\\n[... 12 bytes omitted ...]\\nefg..", "..abc\\n[... 12 bytes omitted ...]\\nefg..", SECRET_JSON },
        { " bytes omitted ...][... 1 bytes omitted ...]jkl", " bytes omitted ...][... 1 bytes omitted ...]jkl",
          SECRET_PLAIN },
    };
    struct arena a = { 0 };
    struct secrets *s;
    struct err e;

    if (!mkdtemp(home))
        abort();
    EXPECT_INT(secrets_open(home, "", &s, &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct secret ask = { .tenant = "us" };
        snprintf(ask.name, sizeof ask.name, "v%zu", i);
        EXPECT_INT(secrets_set(s, &ask, str_of(values[i]), &e), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        EXPECT_STR(secrets_redact(s, &us, str_of(cases[i].text), cases[i].form, &a), cases[i].expect);
    arena_done(&a);
    secrets_free(s);
    snprintf(path, sizeof path, "rm -r %s", home);
    EXPECT_INT(system(path), 0);
}

/* Whatever the pieces, and however values overlap, what comes out has the same length and no value in it. */
TEST(a_stream_covers_values_across_any_border)
{
    char home[] = "/tmp/sg-unit-stream-XXXXXX", path[64];
    struct tenant us = { .name = "us" };
    static const char *const values[] = { "abcdefgh", "abcdefghijkl", "aaaaaaaab", "ghabcdef-x" };
    static const char *const texts[] = { "abcdefgh",       "xxabcdefghijklyy", "abcdefghijkabcdefghijkl",
                                         "aaaaaaaaaaaaab", "ghabcdefgh",       "ghabcdef-xabcdefg",
                                         "abcdefg",        "nothing here",     "aaaaaaa aaaaaaaa" };
    struct secrets *s;
    struct err e;

    if (!mkdtemp(home))
        abort();
    EXPECT_INT(secrets_open(home, "", &s, &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct secret ask = { .tenant = "us" };
        snprintf(ask.name, sizeof ask.name, "v%zu", i);
        EXPECT_INT(secrets_set(s, &ask, str_of(values[i]), &e), 0);
    }
    for (size_t t = 0; t < ARRAY_LEN(texts); t++)
        for (size_t piece = 1; piece < 8; piece++)
            for (int eager = 0; eager <= SECRET_EAGER; eager += SECRET_EAGER) {
                struct secret_stream f;
                struct str all = str_of(texts[t]);
                char got[64] = "";
                size_t n = 0;

                secret_stream_init(&f, s, &us, (size_t)eager);
                for (size_t at = 0; at <= all.n; at += piece) {
                    size_t have = all.n - at < piece ? all.n - at : piece;
                    struct str out = secret_stream_put(&f, (struct str){ all.p + at, have }, at + piece > all.n);
                    memcpy(got + n, out.p, out.n);
                    n += out.n;
                    EXPECT_INT(n + secret_stream_waits(&f), at + have);
                }
                EXPECT_INT(n, all.n);
                for (size_t i = 0; i < ARRAY_LEN(values); i++) {
                    const char *in = strstr(texts[t], values[i]);
                    EXPECT_INT(strstr(got, values[i]) != NULL, 0);
                    if (in && !eager)
                        EXPECT_INT(strspn(got + (in - texts[t]), "*") >= strlen(values[i]), 1);
                    if (in) /* what could not wait is all that is seen of it */
                        EXPECT_INT(strspn(got + (in - texts[t]) + eager, "*") + (size_t)eager >= strlen(values[i]), 1);
                }
                secret_stream_done(&f);
            }
    secrets_free(s);
    snprintf(path, sizeof path, "rm -r %s", home);
    EXPECT_INT(system(path), 0);
}
