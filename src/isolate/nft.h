/* What boxes with a network may reach, as an nftables table of our own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define NFT_PREFIX "sandglass_" /* of tables */

struct nft_opts {
    const char *table;
    const char *links; /* "sg1234": the gateway; boxes are "sg1234-*" */
    uint32_t subnet;
    int bits;
    uint32_t gateway;
};

/* The ruleset as text. keep_closed: the host was no router before us and must not become one for others. */
int nft_text(const struct nft_opts *o, bool keep_closed, char *out, size_t size);
int nft_load(const struct nft_opts *o, struct err *e); /* replaces the table, all or nothing */
void nft_remove(const char *table);                    /* and stops routing, if the host did not route before us */
