/* CRC-32C (Castagnoli): the checksum of log records. By the CPU's own instruction where it has one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *p, size_t n); /* start with 0; chains: crc32c(crc32c(0, a), b) == of ab */
uint32_t crc32c_table(uint32_t crc, const void *p, size_t n); /* the portable way, for the test that compares both */
