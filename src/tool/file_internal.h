/* The file backend's own header: the parameters and results of its tools, and what its files lend to each other and to
 * code.c, whose tools do the same work under other names. The tables that describe these structs are in file.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

struct hand;
struct stat;
struct tool_look;

/* --- parameters and results --- */

struct file_row {
    struct str name, path, type, target, mode;
    int64_t size;
    double mtime;
};
struct file_read_params {
    struct str path, encoding;
    int64_t start_line, end_line;
    bool sudo;
};
struct file_read_result {
    struct str content, encoding, path;
    int64_t size, lines;
    bool truncated;
};
struct file_write_params {
    struct str path, content, data, mode;
    bool append, mkdir, sudo;
};
struct file_write_result {
    struct str path;
    int64_t bytes;
    bool created;
};
struct file_list_params {
    struct str path;
    bool recursive, hidden, reverse, follow;
    int64_t max_entries, max_depth;
    struct strs extensions;
    struct str sort;
};
struct file_list_result {
    struct str path;
    struct rows entries;
    bool truncated;
};
struct file_stat_params {
    struct str path;
    bool follow;
};
struct file_stat_result {
    struct str path, type, mode, target;
    int64_t size, uid, gid, links, inode;
    double mtime, atime, ctime;
};
struct file_exists_params {
    struct str path;
};
struct file_exists_result {
    struct str path, type;
    bool exists;
};
struct file_mkdir_params {
    struct str path, mode;
    bool parents;
};
struct file_mkdir_result {
    struct str path;
    bool created;
};
struct file_move_params { /* of file:move and file:copy */
    struct str source, destination, name;
    bool overwrite, mkdir, recursive, into;
};
struct file_move_result {
    struct str source, destination;
    int64_t files, directories, bytes, skipped;
};
struct file_delete_params {
    struct str path;
    bool recursive, missing_ok;
};
struct file_delete_result {
    struct str path;
    int64_t deleted;
};
struct file_glob_params {
    struct str pattern, path, sort;
    bool hidden, files_only, reverse, follow;
    int64_t max;
    struct strs exclude;
};
struct file_find_params {
    struct str path, name, type;
    int64_t max_depth, min_size, max_size, max;
    double changed_within;
    bool hidden;
};
struct file_matches { /* of file:glob and file:find */
    struct str path;
    struct rows matches;
    int64_t total;
    bool truncated;
};
struct file_grep_params {
    struct str pattern, path, glob, type, max_file_size;
    bool case_insensitive, fixed_strings, multiline, include_hidden, no_ignore, flat, sudo;
    int64_t context, before, after, max_matches, offset;
    struct strs include, exclude;
};
struct file_grep_row {
    struct str path, text;
    int64_t line, column;
    bool context;
};
struct file_grep_result {
    struct rows matches;
    int64_t count, files, searched;
    bool truncated;
    struct str warnings;
};
struct file_replace_params {
    struct str path, old, new;
    bool all, last, none_ok, sudo;
    int64_t count;
};
struct file_replace_result {
    struct str path;
    int64_t replacements, found, size, undo_left;
};
struct file_edit_params {
    struct str command, path, file_text, old_str, new_str, view_range, replace_mode;
    int64_t insert_line;
    bool exclusive, contents;
};
struct file_edit_result {
    struct str path, command, content, old_content, new_content;
    int64_t start_line, end_line, lines, undo_left;
    bool created, deleted, existed, directory;
};

struct file_upload_params {
    struct str path, name, mode;
    bool mkdir;
};
struct file_upload_result {
    struct str path, sha256;
    int64_t bytes;
    bool created;
};
struct file_download_params {
    struct str path, on_change, range_etag;
    struct strs unless_etag;
    int64_t offset, length;
    bool only_head;
};
struct file_download_result {
    struct str path, sha256;
    int64_t size, offset, bytes;
};
struct file_tar_params {
    struct str path, links;
    bool mkdir;
};
struct file_tar_result {
    struct str path, sha256;
    int64_t files, directories, symlinks, bytes, skipped;
};

/* --- the tools' code, in the box only --- */

#define FILE_RUN(name) int file_##name##_run(struct hand *h, const void *params, void *result, struct err *e)
FILE_RUN(read);
FILE_RUN(write);
FILE_RUN(list);
FILE_RUN(stat);
FILE_RUN(exists);
FILE_RUN(mkdir);
FILE_RUN(move);
FILE_RUN(copy);
FILE_RUN(delete);
FILE_RUN(glob);
FILE_RUN(find);
FILE_RUN(grep);
FILE_RUN(replace);
FILE_RUN(edit);
FILE_RUN(upload);
FILE_RUN(download);
FILE_RUN(upload_tar);
FILE_RUN(download_tar);

/* --- file_read.c --- */

enum { FILE_QUICK_BYTES = 64 * 1024 }; /* a read up to this may be done by init itself, or by serve */
int file_read_look(const struct tool_look *l, const void *params, void *result);
int64_t file_count_lines(struct str s);
/* Lines first..last, counted from 1, with their newlines. */
struct str file_cut_lines(struct str s, int64_t first, int64_t last);

/* --- file_io.c --- */

/* As file_path, for who has no hand. */
int file_absolute(struct arena *a, struct str cwd, struct str path, char **ret, struct err *e);
/* The absolute path that a client's path means, in the hand's arena, without "//" and "/./". What it names, with all
 * symbolic links on the way, is the kernel's decision: this is the agent's own box. */
int file_path(struct hand *h, struct str path, char **ret, struct err *e);
bool file_is_name(struct str s); /* of something in a directory */
void file_trim(char *path);      /* slashes at the end */
/* What a path names in the end, as a shell's > would have it: it may be on another file system, and need not exist. NULL
 * with errno: too many links. */
const char *file_follow(struct hand *h, const char *path);
int file_mode(struct hand *h, struct str text, unsigned *ret, struct err *e); /* octal permissions */
/* From errno: a missing file is the agent's business and has its own code; the rest keeps errno. */
int file_fail(struct err *e, const char *verb, const char *path);
/* Never blocks and never returns a descriptor of a fifo, a device or a directory. */
int file_open(const char *path, int flags, struct stat *st, struct err *e);
int file_read_all(struct hand *h, const char *path, struct str *ret, struct stat *st, struct err *e);
/* Replaces the content of an open file, in place. */
int file_store(int fd, const char *path, struct str s, struct err *e);
int file_write_all(int fd, const char *path, struct str s, struct err *e);
int file_make_parents(char *path, struct err *e); /* of path; path itself is not made */
/* Opens for writing, and makes parents first if they are missing. */
int file_create(char *path, int flags, bool mkdirs, struct stat *st, struct err *e);
const char *file_type_name(mode_t mode);

struct file_rows { /* grows in an arena */
    struct arena *a;
    struct file_row *v;
    size_t n, size;
    bool follow; /* rows of symlinks are about what these point to, if it is there */
};
void file_rows_add(struct file_rows *rows, int dir_fd, const char *dir, const char *name, const struct stat *st);
void file_rows_sort(struct file_rows *rows, bool by_time); /* by path, or newest first */
/* By "name" (the path), "filename", "mtime" (newest first), "size" or "type". */
void file_rows_sort_by(struct file_rows *rows, struct str key, bool reverse);
/* The same as reading and writing, as root of the box, by its sudo. */
int file_sudo_read(struct hand *h, const char *path, struct str *ret, struct err *e);
int file_sudo_write(struct hand *h, const char *path, struct str s, bool append, bool mkdirs, struct err *e);

struct file_walk {
    bool hidden;
    int depth;                                                                /* 1: only the directory's own entries */
    int64_t max;                                                              /* rows */
    bool (*wanted)(const void *arg, const char *name, const struct stat *st); /* NULL: everything is */
    const void *arg;
    bool truncated, full; /* set: there was more; because max was reached */
};
/* Takes fd. What cannot be opened below the top is left out: it may be somebody else's or have vanished. */
void file_walk(struct file_walk *w, struct file_rows *rows, int take_fd, const char *dir);

/* --- file_glob.c --- */

int file_glob(struct hand *h, const struct file_glob_params *p, struct file_matches *ret, struct err *e);

/* --- file_text.c --- */

size_t file_count(struct str text, struct str part); /* without overlaps */
struct str file_replaced(struct arena *a, struct str text, struct str old, struct str new, size_t times);
/* Text with the number of its line in front of each, counted from first; format has "%lld". */
struct str file_numbered(struct arena *a, struct str text, int64_t first, const char *format);
/* Keeps what the file holds for undo, then replaces it. */
int file_change(struct hand *h, char *path, struct str old, struct str new, int64_t *ret_undo_left, struct err *e);

/* --- file_undo.c: earlier versions of edited files, kept in the box --- */

struct undo {
    char name[64];  /* "": it is not kept */
    char after[65]; /* hash of what the edit left in the file */
    bool existed;
    struct str content;
    int64_t left; /* versions that remain without it */
};
/* The file holds old (p NULL: it is absent), and is about to hold new. Failing to keep old is no error: the edit goes
 * on, but nothing before it can be undone. */
struct undo undo_push(struct hand *h, const char *path, struct str old, struct str new);
/* The last version, which is forgotten once undo_drop() is called. -ENOENT: there is none. */
int undo_last(struct hand *h, const char *path, struct undo *ret, struct err *e);
bool undo_fits(const struct undo *u, struct str now); /* nobody else has written since */
void undo_drop(const struct undo *u);
/* A write failed, and may have left anything: that is what can be undone now. */
void undo_failed(struct hand *h, const char *path, const struct undo *u);
