/* Extensions: processes of the user's that serve backends, over JSON lines. They connect to run/extend.sock of the
 * home, or are started by the server from the file that `extensions` names, with the conversation on their stdin and
 * stdout.
 *
 *   extension -> server  {"hello": 1, "name": "weather", "backends": [{"name", "kind", "help", "tools": [{"name",
 * "title", "help", "parameters", "result", "read_only", "idempotent"}]}]} server -> extension  {"welcome": 1} server ->
 * extension  {"id": 7, "call": "weather:now", "params": {...}, "worker": "w1", "session": "..."|null, "temporary":
 * false, "timeout": 30} extension -> server  {"id": 7, "ok": {...}}    or {"id": 7, "error": {"code":
 * "invalid"|"failed", "message": "..."}} server -> extension  {"id": 8, "open": "weather", "worker": "w1", "session":
 * "...", "config": {...}}   -> ok or error server -> extension  {"close": "weather", "worker": "w1", "session": "..."}
 * no answer server -> extension  {"cancel": 7}                                                                    no
 * answer
 *
 * Calls may be answered in any order. A call without a session to a backend of kind session or hybrid is temporary: the
 * extension makes its state for this one call. docs/extend.md */
#pragma once

#include "session/node.h"

/* file "": none are started; else fd is that file, opened by who may read it. */
int extensions_start(struct node *n, const char *file, int fd, struct err *e);
/* Shared objects that export `const struct backend *sandglass_backend(void)`; colon-separated. */
int plugins_load(const char *paths, struct err *e);
