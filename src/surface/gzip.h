/* A gzip file whose content is stored as it is: every reader takes it, and nothing has to be compressed in the loop. */
#pragma once

#include "base/buf.h"
#include "base/str.h"

void gzip_store(struct buf *out, struct str content);
