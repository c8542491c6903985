#include "isolate/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"
#include "isolate/dns.h"
#include "isolate/netlink.h"
#include "isolate/nft.h"

/* Locally administered; the same for every box, since none sees another's. */
static const unsigned char host_mac[6] = { 0x02, 0x53, 0x47, 0x00, 0x00, 0x01 };
static const unsigned char box_mac[6] = { 0x02, 0x53, 0x47, 0x00, 0x00, 0x02 };

static void sysctl_set(const char *path, const char *value)
{
    auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, value, strlen(value));
}

int network_loopback(struct err *e)
{
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
        return err_sys(e, "bring up loopback");
    return 0;
}

void network_open_up(int proc)
{
    static const char *const settings[][2] = { { "sys/net/ipv4/ip_unprivileged_port_start", "0" },
                                               { "sys/net/ipv4/ping_group_range", "0 2147483647" } };

    /* The namespace belongs to the host's root, so no capability of the box counts in it: open what people expect
     * of a computer of their own. /proc/sys/net is that of the opener's network namespace. */
    auto_close int usual = proc < 0 ? open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        auto_close int fd = openat(proc < 0 ? usual : proc, settings[i][0], O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
            (void)!write(fd, settings[i][1], strlen(settings[i][1]));
    }
}

/* --- addresses --- */

int network_init(struct network *n, const char *name, const char *subnet, struct err *e)
{
    char text[32];
    struct in_addr a;
    unsigned hash = 2166136261u;

    *n = (struct network){ .host_ns = -1, .next = 1 };
    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    snprintf(n->tag, sizeof n->tag, "%04x", hash & 0xffff);
    snprintf(text, sizeof text, "100.%u.0.0/16", 64 + (hash >> 16) % 64);
    if (subnet)
        snprintf(text, sizeof text, "%s", subnet);
    char *slash = strchr(text, '/');
    if (slash)
        *slash = 0;
    n->bits = slash ? atoi(slash + 1) : 0;
    if (!slash || inet_pton(AF_INET, text, &a) != 1 || n->bits < 8 || n->bits > 28)
        return err_set(e, ERR_INVALID, "subnet '%s': must be ADDRESS/BITS with 8 to 28 bits", subnet);
    n->subnet = ntohl(a.s_addr) & ~(network_size(n) - 1);

    size_t out = (size_t)snprintf(n->table, sizeof n->table, NFT_PREFIX);
    for (const char *p = name; *p && out < sizeof n->table - 1; p++)
        n->table[out++] = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ? *p : '_';
    n->host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return n->host_ns < 0 ? err_sys(e, "open the network namespace") : 0;
}

uint32_t network_size(const struct network *n)
{
    return 1u << (32 - n->bits);
}

uint32_t network_gateway(const struct network *n)
{
    return n->subnet + 1;
}

uint32_t network_address(const struct network *n, uint32_t index)
{
    return n->subnet + 1 + index;
}

void network_text(uint32_t address, char out[NETWORK_NAME])
{
    snprintf(out, NETWORK_NAME, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

/* --- netlink phrases --- */

static void attr_text(struct netlink *nl, uint16_t type, const char *z)
{
    netlink_attr(nl, type, z, strlen(z) + 1);
}

static void attr_address(struct netlink *nl, uint16_t type, uint32_t address)
{
    uint32_t a = htonl(address);
    netlink_attr(nl, type, &a, sizeof a);
}

static int add_address(struct netlink *nl, unsigned index, uint32_t address, struct err *e)
{
    const struct ifaddrmsg m = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = index };

    netlink_begin(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &m, sizeof m);
    attr_address(nl, IFA_LOCAL, address);
    attr_address(nl, IFA_ADDRESS, address);
    return netlink_send(nl, e);
}

static int set_up(struct netlink *nl, unsigned index, struct err *e)
{
    const struct ifinfomsg m = { .ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };

    netlink_begin(nl, RTM_NEWLINK, 0, &m, sizeof m);
    return netlink_send(nl, e);
}

/* to NULL: the default route. via 0: directly */
static int add_route(struct netlink *nl, unsigned index, const uint32_t *to, uint32_t via, struct err *e)
{
    const struct rtmsg m = { .rtm_family = AF_INET,
                             .rtm_dst_len = to ? 32 : 0,
                             .rtm_table = RT_TABLE_MAIN,
                             .rtm_protocol = RTPROT_STATIC,
                             .rtm_scope = via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
                             .rtm_type = RTN_UNICAST };

    netlink_begin(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof m);
    if (to)
        attr_address(nl, RTA_DST, *to);
    if (via)
        attr_address(nl, RTA_GATEWAY, via);
    netlink_attr(nl, RTA_OIF, &index, sizeof index);
    return netlink_send(nl, e);
}

/* The gateway's hardware address is known: no ARP, so the host's arp_ignore and friends do not matter. */
static int add_neighbour(struct netlink *nl, unsigned index, uint32_t address, struct err *e)
{
    const struct ndmsg m = { .ndm_family = AF_INET, .ndm_ifindex = (int)index, .ndm_state = NUD_PERMANENT };

    netlink_begin(nl, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &m, sizeof m);
    attr_address(nl, NDA_DST, address);
    netlink_attr(nl, NDA_LLADDR, host_mac, sizeof host_mac);
    return netlink_send(nl, e);
}

static int add_veth(struct netlink *nl, const char *peer, int host_ns, struct err *e)
{
    const struct ifinfomsg m = { 0 };

    netlink_begin(nl, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof m);
    attr_text(nl, IFLA_IFNAME, "eth0");
    netlink_attr(nl, IFLA_ADDRESS, box_mac, sizeof box_mac);
    size_t info = netlink_nest(nl, IFLA_LINKINFO, NULL, 0);
    netlink_attr(nl, IFLA_INFO_KIND, "veth", 4);
    size_t data = netlink_nest(nl, IFLA_INFO_DATA, NULL, 0);
    size_t other = netlink_nest(nl, VETH_INFO_PEER, &m, sizeof m);
    attr_text(nl, IFLA_IFNAME, peer);
    netlink_attr(nl, IFLA_ADDRESS, host_mac, sizeof host_mac);
    netlink_attr(nl, IFLA_NET_NS_FD, &host_ns, sizeof host_ns);
    netlink_end(nl, other);
    netlink_end(nl, data);
    netlink_end(nl, info);
    return netlink_send(nl, e);
}

/* --- one box --- */

static int link_inside(struct netlink *nl, const struct network *n, uint32_t index, const char *peer, struct err *e)
{
    uint32_t gateway = network_gateway(n);

    /* before the link is there: nothing of it ever speaks IPv6, whose rules we do not write */
    sysctl_set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    int r = add_veth(nl, peer, n->host_ns, e);
    if (r < 0)
        return r;
    unsigned link = if_nametoindex("eth0");
    r = add_address(nl, link, network_address(n, index), e);
    if (r < 0)
        return r;
    r = set_up(nl, link, e);
    if (r < 0)
        return r;
    r = add_neighbour(nl, link, gateway, e);
    if (r < 0)
        return r;
    r = add_route(nl, link, &gateway, 0, e);
    return r < 0 ? r : add_route(nl, link, NULL, gateway, e);
}

/* In the host's namespace */
static int link_outside(const struct network *n, uint32_t index, const char *name, struct err *e)
{
    struct netlink nl;
    char path[96];
    uint32_t address = network_address(n, index);

    int r = netlink_open(&nl, e);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
    sysctl_set(path, "1");
    unsigned link = if_nametoindex(name);
    r = set_up(&nl, link, e);
    if (r >= 0)
        r = add_route(&nl, link, &address, 0, e);
    if (r == -EEXIST)
        err_set(e, ERR_EXISTS, "the host has a route to it already; does another server use the same subnet?");
    netlink_close(&nl);
    return r;
}

int network_link(const struct network *n, uint32_t index, struct err *e)
{
    struct netlink nl;
    char name[IFNAMSIZ], address[NETWORK_NAME];

    snprintf(name, sizeof name, "sg%s-%u", n->tag, index);
    network_text(network_address(n, index), address);
    int r = netlink_open(&nl, e);
    if (r < 0)
        return r;
    r = link_inside(&nl, n, index, name, e);
    netlink_close(&nl);
    if (r < 0)
        return err_wrap(e, r, "link the box to the network as %s", address);

    auto_close int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || setns(n->host_ns, CLONE_NEWNET) < 0)
        return err_sys(e, "enter the host's network namespace");
    r = link_outside(n, index, name, e);
    if (setns(own, CLONE_NEWNET) < 0)
        return err_sys(e, "return to the box's network namespace");
    return r < 0 ? err_wrap(e, r, "link the host to %s", address) : 0;
}

/* --- the host --- */

/* A bridge without ports: the one kind of link that every kernel with veth has and that can just hold an address. */
static int make_holder(const struct network *n, struct err *e)
{
    struct netlink nl;
    const struct ifinfomsg m = { 0 };
    char name[IFNAMSIZ];

    snprintf(name, sizeof name, "sg%s", n->tag);
    int r = netlink_open(&nl, e);
    if (r < 0)
        return r;
    netlink_begin(&nl, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof m);
    attr_text(&nl, IFLA_IFNAME, name);
    size_t info = netlink_nest(&nl, IFLA_LINKINFO, NULL, 0);
    netlink_attr(&nl, IFLA_INFO_KIND, "bridge", 6);
    netlink_end(&nl, info);
    r = netlink_send(&nl, e);
    unsigned link = if_nametoindex(name);
    if (r >= 0 || r == -EEXIST)
        r = add_address(&nl, link, network_gateway(n), e);
    if (r >= 0)
        r = set_up(&nl, link, e);
    netlink_close(&nl);
    return r < 0 ? err_wrap(e, r, "make the gateway %s", name) : 0;
}

int network_prepare(struct network *n, struct err *e)
{
    if (n->ready)
        return 0;
    int r = make_holder(n, e);
    if (r < 0)
        return r;
    char tag[NETWORK_NAME];
    snprintf(tag, sizeof tag, "sg%s", n->tag);
    const struct nft_opts rules = {
        .table = n->table, .links = tag, .subnet = n->subnet, .bits = n->bits, .gateway = network_gateway(n)
    };
    r = nft_load(&rules, e);
    if (r < 0)
        return r;
    /* after the rules: from here on packets pass */
    sysctl_set("/proc/sys/net/ipv4/ip_forward", "1");
    if (n->relay == 0) {
        r = dns_start(network_gateway(n), e);
        if (r < 0)
            return r;
        n->relay = r;
    }
    n->ready = true;
    return 0;
}

void network_remove(struct network *n)
{
    struct netlink nl;
    char name[IFNAMSIZ];

    snprintf(name, sizeof name, "sg%s", n->tag);
    const struct ifinfomsg m = { .ifi_index = (int)if_nametoindex(name) };
    if (m.ifi_index <= 0)
        return;
    nft_remove(n->table);
    if (netlink_open(&nl, NULL) >= 0) {
        netlink_begin(&nl, RTM_DELLINK, 0, &m, sizeof m);
        (void)netlink_send(&nl, NULL);
        netlink_close(&nl);
    }
    n->ready = false;
}

void network_done(struct network *n)
{
    if (n->relay > 0)
        dns_stop(n->relay);
    n->relay = 0;
    if (n->host_ns >= 0)
        close(n->host_ns);
    n->host_ns = -1;
}
