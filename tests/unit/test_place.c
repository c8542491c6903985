#include "test.h"

#include "surface/door.h"
#include "surface/place.h"

TEST(what_proves_who_asks_never_gets_into_a_box)
{
    static const struct {
        const char *target, *want;
    } cases[] = {
        { "/x", "" },
        { "/x?", "" },
        { "/x?a=1&b=2", "?a=1&b=2" },
        { "/x?ticket=T", "" },
        { "/x?ticket=T&a=1", "?a=1" },
        { "/x?a=1&api_key=K&b", "?a=1&b" },
        { "/x?&&a=1&&ticket=", "?a=1" },
        { "/x?tick=1&t&ticke", "?tick=1&t&ticke" }, /* beginnings of the names are others' */
        { "/x?a=ticket=T", "?a=ticket=T" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b;
        buf_init(&b, 1000);
        place_add_query(&b, str_of(cases[i].target));
        EXPECT_STR(buf_view(&b), cases[i].want);
        buf_done(&b);
    }
}

TEST(our_cookie_is_taken_out_and_others_stay)
{
    static const struct {
        const char *cookies, *want;
    } cases[] = {
        { "", "" },
        { "a=b", "a=b" },
        { "sandglass_ticket=T", "" },
        { "__Host-sandglass_ticket=T; sandglass_ticket=U", "" },
        { "a=b; sandglass_ticket=T; c=d", "a=b; c=d" },
        { "sandglass_ticket=T;sandglass_ticket=U;\ta=b", "a=b" },
        { "a=b;c=d", "a=b; c=d" }, /* longer than it came */
        { "a=b;;  ; c", "a=b; c" },
        { "a;b;c;d;e;f;g;h", "a; b; c; d; e; f; g; h" },
        { "xsandglass_ticket=T; sandglass_ticke=1", "xsandglass_ticket=T; sandglass_ticke=1" },
    };
    struct arena a = { 0 };
    struct http_request r = { .arena = &a };
    struct web w = { .http = &r };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT_STR(door_without_ticket(&w, str_of(cases[i].cookies)), cases[i].want);
    arena_done(&a);
}

TEST(only_whole_names_are_below_a_domain)
{
    EXPECT_TRUE(place_is_below(STR("a.example.net"), "example.net"));
    EXPECT_TRUE(place_is_below(STR("8000-b.Example.NET"), "example.net"));
    EXPECT_TRUE(!place_is_below(STR("example.net"), "example.net"));
    EXPECT_TRUE(!place_is_below(STR(".example.net"), "example.net"));
    EXPECT_TRUE(!place_is_below(STR("notexample.net"), "example.net"));
    EXPECT_TRUE(!place_is_below(STR("a.example.net.evil"), "example.net"));
    EXPECT_TRUE(!place_is_below(STR("a.b"), ""));
    EXPECT_TRUE(!place_is_below(STR(""), "localhost"));
}

TEST(a_port_of_one_of_our_names_is_one_of_the_default_box)
{
    static const char names[] = "sand.example, 80-sand.example a";
    static const struct {
        const char *host, *port, *domain; /* NULL: it is not one */
    } cases[] = {
        { "8000-localhost", "8000", "localhost" },
        { "8000-LOCALHOST:8080", "8000", "LOCALHOST:8080" },
        { "3000-Sand.Example", "3000", "Sand.Example" },
        { "3000-80-sand.example:1", "3000", "80-sand.example:1" },
        { "1-a", "1", "a" },
        { "80-sand.example", NULL, NULL }, /* listed itself: ours */
        { "80-sand.example:8080", NULL, NULL },
        { "81-sand.example", "81", "sand.example" },
        { "sand.example", NULL, NULL },
        { "localhost", NULL, NULL },
        { "-localhost", NULL, NULL },
        { "8000-", NULL, NULL },
        { "8000-:80", NULL, NULL },
        { "x-localhost", NULL, NULL },
        { "123456-localhost", NULL, NULL },
        { "8000-localhost.evil", NULL, NULL },
        { "8000-sand.exampl", NULL, NULL },
        { "8000-xsand.example", NULL, NULL },
        { "8000-x.sand.example", NULL, NULL },
        { "8000-sand.example,", NULL, NULL },
        { "8000-127.0.0.1", NULL, NULL },
        { "", NULL, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct place at = { 0 };
        EXPECT_INT(place_is_port_of(str_of(cases[i].host), names, &at), cases[i].port != NULL);
        EXPECT_STR(at.port, cases[i].port ? cases[i].port : "");
        EXPECT_STR(at.domain, cases[i].domain ? cases[i].domain : "");
        EXPECT_INT(at.box.n, 0);
    }
    struct place at;
    EXPECT_TRUE(place_is_port_of(STR("8000-localhost"), "", &at));
    EXPECT_TRUE(!place_is_port_of(STR("8000-"), "", &at));
}

TEST(no_route_takes_another_ones_requests)
{
    const char *clash = surfaces_clash();

    EXPECT_STR(str_of(clash ? clash : "none"), "none");
}
