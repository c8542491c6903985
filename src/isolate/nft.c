#include "isolate/nft.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "isolate/network.h"

/* Only where the host was no router before us: it does not become one for others. All servers' links are "sg*". */
#define CLOSED_MARK "iifname != \"sg*\" oifname != \"sg*\" ct state new drop"

/* Where no packet of a box goes: this host's and other networks' insides (RFC 1918, 6598, link-local with the clouds'
 * metadata service, loopback, benchmarks), Azure's metadata, which has a public address, and everything that is no single
 * host's address. */
#define CLOSED                                                                                                         \
    "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 168.63.129.16, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, "  \
    "192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3"

/* Order of the hooks: a packet of a box with a source that is not its own ends in `spoofed`, before any state is made
 * of it. To the host itself only DNS to the gateway passes. Refusals are answered, so that programs fail at once and
 * not after a timeout. Nobody can begin a conversation with a box. */
int nft_text(const struct nft_opts *o, bool keep_closed, char *out, size_t size)
{
    char subnet[NETWORK_NAME], gateway[NETWORK_NAME];

    network_text(o->subnet, subnet);
    network_text(o->gateway, gateway);
    return snprintf(out, size,
                    "table ip %s\n"
                    "delete table ip %s\n"
                    "table ip %s {\n"
                    "  chain spoofed { type filter hook prerouting priority raw; policy accept;\n"
                    "    iifname \"%s-*\" fib saddr . iif oif missing drop\n"
                    "  }\n"
                    "  chain host { type filter hook input priority filter - 5; policy accept;\n"
                    "    iifname \"%s-*\" jump from_box\n"
                    "    ip daddr %s iifname != \"lo\" drop\n" /* the relay is for boxes only */
                    "  }\n"
                    "  chain from_box {\n"
                    "    ct state established,related accept\n"
                    "    ip daddr %s udp dport 53 accept\n"
                    "    ip daddr %s tcp dport 53 accept\n"
                    "    ip daddr %s icmp type echo-request accept\n"
                    "    reject with icmp type admin-prohibited\n"
                    "  }\n"
                    "  chain pass { type filter hook forward priority filter - 5; policy accept;\n"
                    "    oifname \"%s-*\" ct state established,related accept\n"
                    "    oifname \"%s-*\" drop\n"
                    "    iifname \"%s-*\" ip daddr { " CLOSED " } reject with icmp type admin-prohibited\n"
                    "    iifname \"%s-*\" accept\n"
                    "%s"
                    "  }\n"
                    "  chain leave { type nat hook postrouting priority srcnat; policy accept;\n"
                    "    ip saddr %s/%d oifname != \"%s*\" masquerade\n"
                    "  }\n"
                    "}\n",
                    o->table, o->table, o->table, o->links, o->links, gateway, gateway, gateway, gateway, o->links,
                    o->links, o->links, o->links, keep_closed ? "    " CLOSED_MARK "\n" : "", subnet, o->bits,
                    o->links);
}

static int run(const char *const *argv, const char *input, char *words, size_t size)
{
    posix_spawn_file_actions_t actions;
    int in[2], out[2], status = -1;
    pid_t pid;

    if (pipe2(in, O_CLOEXEC) < 0)
        return -1;
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(in[0]);
        close(in[1]);
        return -1;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, out[1], 2);
    char *const env[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
    errno = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    if (errno == 0) {
        (void)!write(in[1], input, strlen(input)); /* smaller than a pipe */
        close(in[1]);
        size_t n = 0;
        for (ssize_t got; n < size - 1 && (got = read(out[0], words + n, size - 1 - n)) > 0;)
            n += (size_t)got;
        words[n] = 0;
        (void)waitpid(pid, &status, 0);
    } else {
        close(in[1]);
    }
    close(out[0]);
    return status;
}

static bool is_router(void)
{
    char c = '0';
    auto_close int fd = open("/proc/sys/net/ipv4/ip_forward", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &c, 1) == 1 && c == '1';
}

/* Was the host closed before our first life? Its own table tells, while it is there. */
static bool was_closed(const char *table)
{
    const char *const argv[] = { "nft", "list", "table", "ip", table, NULL };
    char words[8192];

    if (!is_router())
        return true;
    return run(argv, "", words, sizeof words) == 0 && strstr(words, CLOSED_MARK) != NULL;
}

int nft_load(const struct nft_opts *o, struct err *e)
{
    static const char *const argv[] = { "nft", "-f", "-", NULL };
    char text[4096], words[512];

    bool closed = was_closed(o->table);
    nft_text(o, closed, text, sizeof text);
    errno = 0;
    int status = run(argv, text, words, sizeof words);
    if (status == 0)
        return 0;
    if (status < 0)
        return err_sys(e, "network full needs the program nft");
    words[strcspn(words, "\n")] = 0;
    return err_set(e, ERR_SYSTEM, "nft refused the rules of box networks: %s", words);
}

void nft_remove(const char *table)
{
    const char *const remove[] = { "nft", "delete", "table", "ip", table, NULL };
    static const char *const list[] = { "nft", "list", "tables", "ip", NULL };
    char words[4096];

    bool closed = was_closed(table);
    (void)run(remove, "", words, sizeof words);
    if (!closed || run(list, "", words, sizeof words) != 0 || strstr(words, "table ip " NFT_PREFIX))
        return; /* another server of ours needs it */
    auto_close int fd = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, "0", 1);
}
