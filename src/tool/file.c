/* Files of a box: what the tools are called, take and give. The work (file_io.c, file_read.c, file_tree.c, file_glob.c,
 * file_grep.c, file_text.c, file_undo.c) is done inside the box, as its user: no path which an agent chose leads to
 * anything of the host's. file_read.c says what serve may look at without the box. */
#include "base/auto.h"
#include "base/limits.h"
#include "tool/file_internal.h"
#include "tool/tool.h"

enum { LIST_DEFAULT = 2000, GREP_DEFAULT = 1000, CONTEXT_MAX = 1000 };

#define PATH_FIELD(type, help)                                                                                         \
    FIELD(STR, type, path, help "; relative to /home/gem", .required = true, .max = LIMIT_PATH, .path = true)

static const struct field row_fields[] = {
    FIELD(STR, struct file_row, name, "last part of the path", .path = true),
    FIELD(STR, struct file_row, path, "absolute path", .path = true),
    FIELD(STR, struct file_row, type, "file, directory, symlink, fifo, socket, device"),
    FIELD(INT, struct file_row, size, "bytes"),
    FIELD(STR, struct file_row, mode, "permissions in octal"),
    FIELD(NUM, struct file_row, mtime, "last change, seconds since 1970"),
    FIELD(STR, struct file_row, target, "of a symlink", .path = true),
    { 0 },
};

static const struct field read_fields[] = {
    PATH_FIELD(struct file_read_params, "file"),
    FIELD(STR, struct file_read_params, encoding, "how to return the content; auto: text if it is UTF-8",
          .def_str = "auto", .choices = "auto|utf-8|base64"),
    FIELD(INT, struct file_read_params, start_line, "first line, from 1", .def = FIELD_ABSENT, .min = 1, .max = 1e15),
    FIELD(INT, struct file_read_params, end_line, "last line, inclusive", .def = FIELD_ABSENT, .min = 1, .max = 1e15),
    FIELD(BOOL, struct file_read_params, sudo, "as root of the box"),
    { 0 },
};
static const struct field read_result_fields[] = {
    FIELD(STR, struct file_read_result, content, "the text, or base64 of the bytes", .always = true),
    FIELD(STR, struct file_read_result, encoding, "utf-8 or base64"),
    FIELD(STR, struct file_read_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_read_result, size, "bytes of the whole file"),
    FIELD(INT, struct file_read_result, lines, "lines of the whole file; absent if it is too large to count"),
    FIELD(BOOL, struct file_read_result, truncated, "content is only a part of the file"),
    { 0 },
};

static const struct field write_fields[] = {
    PATH_FIELD(struct file_write_params, "file"),
    FIELD(STR, struct file_write_params, content, "text to write", .max = LIMIT_FILE_IO),
    FIELD(BYTES, struct file_write_params, data, "bytes to write, instead of content", .max = LIMIT_FILE_IO,
          .alias = "content_base64"),
    FIELD(BOOL, struct file_write_params, append, "add to the end instead of replacing"),
    FIELD(BOOL, struct file_write_params, mkdir, "make missing parent directories", .def = true),
    FIELD(STR, struct file_write_params, mode, "permissions in octal, such as 755", .max = 5),
    FIELD(BOOL, struct file_write_params, sudo, "as root of the box"),
    { 0 },
};
static const struct field write_result_fields[] = {
    FIELD(STR, struct file_write_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_write_result, bytes, "written"),
    FIELD(BOOL, struct file_write_result, created, "the file did not exist before"),
    { 0 },
};

static const struct field list_fields[] = {
    FIELD(STR, struct file_list_params, path, "directory; relative to /home/gem", .def_str = ".", .max = LIMIT_PATH,
          .path = true),
    FIELD(BOOL, struct file_list_params, recursive, "go into directories"),
    FIELD(BOOL, struct file_list_params, hidden, "also names that begin with a dot"),
    FIELD(INT, struct file_list_params, max_entries, "stop after so many", .def = LIST_DEFAULT, .min = 1,
          .max = LIMIT_LIST_ENTRIES),
    FIELD(INT, struct file_list_params, max_depth, "recursive: 1 is only the directory itself", .def = LIMIT_TREE_DEPTH,
          .min = 1, .max = LIMIT_TREE_DEPTH),
    FIELD(STRS, struct file_list_params, extensions, "only files whose names end so, such as .py", .max = 100),
    FIELD(STR, struct file_list_params, sort, "by what", .def_str = "name", .choices = "name|filename|mtime|size|type"),
    FIELD(BOOL, struct file_list_params, reverse, "the other way round"),
    FIELD(BOOL, struct file_list_params, follow, "describe what symlinks point to, not the links"),
    { 0 },
};
static const struct field list_result_fields[] = {
    FIELD(STR, struct file_list_result, path, "absolute path", .path = true),
    FIELD(ROWS, struct file_list_result, entries, "sorted by path", .always = true, .rows = row_fields,
          .row_size = sizeof(struct file_row)),
    FIELD(BOOL, struct file_list_result, truncated, "there are more than max_entries, or LIMIT_TREE_DEPTH was reached"),
    { 0 },
};

static const struct field stat_fields[] = {
    PATH_FIELD(struct file_stat_params, "anything"),
    FIELD(BOOL, struct file_stat_params, follow, "describe what a symlink points to, not the link", .def = true),
    { 0 },
};
static const struct field stat_result_fields[] = {
    FIELD(STR, struct file_stat_result, path, "absolute path", .path = true),
    FIELD(STR, struct file_stat_result, type, "file, directory, symlink, fifo, socket, device"),
    FIELD(INT, struct file_stat_result, size, "bytes"),
    FIELD(STR, struct file_stat_result, mode, "permissions in octal"),
    FIELD(INT, struct file_stat_result, uid, "owner"),
    FIELD(INT, struct file_stat_result, gid, "group"),
    FIELD(INT, struct file_stat_result, links, "hard links"),
    FIELD(INT, struct file_stat_result, inode, "number of the inode"),
    FIELD(NUM, struct file_stat_result, mtime, "last change of the content, seconds since 1970"),
    FIELD(NUM, struct file_stat_result, atime, "last access"),
    FIELD(NUM, struct file_stat_result, ctime, "last change of the inode"),
    FIELD(STR, struct file_stat_result, target, "if path is a symlink: what it contains", .path = true),
    { 0 },
};

static const struct field exists_fields[] = {
    PATH_FIELD(struct file_exists_params, "anything"),
    { 0 },
};
static const struct field exists_result_fields[] = {
    FIELD(STR, struct file_exists_result, path, "absolute path", .path = true),
    FIELD(BOOL, struct file_exists_result, exists, "there is something; a symlink to nothing is nothing"),
    FIELD(STR, struct file_exists_result, type, "file, directory, fifo, socket, device"),
    { 0 },
};

static const struct field mkdir_fields[] = {
    PATH_FIELD(struct file_mkdir_params, "directory"),
    FIELD(BOOL, struct file_mkdir_params, parents, "make missing parents, and be content if it exists", .def = true),
    FIELD(STR, struct file_mkdir_params, mode, "permissions in octal, such as 755", .max = 5),
    { 0 },
};
static const struct field mkdir_result_fields[] = {
    FIELD(STR, struct file_mkdir_result, path, "absolute path", .path = true),
    FIELD(BOOL, struct file_mkdir_result, created, "it did not exist before"),
    { 0 },
};

#define TWO_PATHS                                                                                                      \
    FIELD(STR, struct file_move_params, source, "file or directory; relative to /home/gem", .required = true,          \
          .max = LIMIT_PATH, .alias = "from", .path = true),                                                           \
        FIELD(STR, struct file_move_params, destination, "new path, or an existing directory to put it into",          \
              .required = true, .max = LIMIT_PATH, .alias = "to", .path = true),                                       \
        FIELD(BOOL, struct file_move_params, overwrite, "replace a file that exists at the destination"),              \
        FIELD(BOOL, struct file_move_params, mkdir, "make missing parent directories", .def = true)

static const struct field move_fields[] = {
    TWO_PATHS,
    FIELD(STR, struct file_move_params, name, "if destination is a directory: what to call it there", .max = 255,
          .path = true),
    FIELD(BOOL, struct file_move_params, into,
          "as a new content: links at the destination are followed, its mode stays"),
    { 0 },
};
static const struct field copy_fields[] = {
    TWO_PATHS,
    FIELD(BOOL, struct file_move_params, recursive, "copy directories with all that is in them", .def = true),
    { 0 },
};
static const struct field move_result_fields[] = {
    FIELD(STR, struct file_move_result, source, "absolute path", .path = true),
    FIELD(STR, struct file_move_result, destination, "absolute path where it is now", .path = true),
    { 0 },
};
static const struct field copy_result_fields[] = {
    FIELD(STR, struct file_move_result, source, "absolute path", .path = true),
    FIELD(STR, struct file_move_result, destination, "absolute path of the copy", .path = true),
    FIELD(INT, struct file_move_result, files, "copied, symlinks included"),
    FIELD(INT, struct file_move_result, directories, "made or entered"),
    FIELD(INT, struct file_move_result, bytes, "copied"),
    FIELD(INT, struct file_move_result, skipped, "sockets and devices, which cannot be copied"),
    { 0 },
};

static const struct field delete_fields[] = {
    PATH_FIELD(struct file_delete_params, "file or directory"),
    FIELD(BOOL, struct file_delete_params, recursive, "needed for a directory that is not empty"),
    FIELD(BOOL, struct file_delete_params, missing_ok, "no error if it does not exist"),
    { 0 },
};
static const struct field delete_result_fields[] = {
    FIELD(STR, struct file_delete_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_delete_result, deleted, "files and directories"),
    { 0 },
};

static const struct field glob_fields[] = {
    FIELD(STR, struct file_glob_params, pattern, "*, ?, [a-z], {a,b}; ** is any number of directories",
          .required = true, .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct file_glob_params, path, "directory in which to search; relative to /home/gem", .def_str = ".",
          .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct file_glob_params, sort, "by what; mtime: newest first", .def_str = "name",
          .choices = "name|mtime|filename|size|type"),
    FIELD(BOOL, struct file_glob_params, reverse, "the other way round"),
    FIELD(BOOL, struct file_glob_params, follow, "describe what symlinks point to, not the links"),
    FIELD(BOOL, struct file_glob_params, files_only, "no directories"),
    FIELD(STRS, struct file_glob_params, exclude, "patterns of names, or of paths below path, to leave out", .max = 100,
          .path = true),
    FIELD(BOOL, struct file_glob_params, hidden, "wildcards also match names that begin with a dot"),
    FIELD(INT, struct file_glob_params, max, "return so many", .def = LIST_DEFAULT, .min = 1,
          .max = LIMIT_LIST_ENTRIES),
    { 0 },
};
static const struct field find_fields[] = {
    FIELD(STR, struct file_find_params, path, "directory in which to search; relative to /home/gem", .def_str = ".",
          .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct file_find_params, name, "pattern of the last part of the path, such as *.c", .max = LIMIT_PATH,
          .path = true),
    FIELD(STR, struct file_find_params, type, "what to find", .def_str = "any",
          .choices = "any|file|directory|symlink"),
    FIELD(INT, struct file_find_params, max_depth, "1: only the directory itself", .def = LIMIT_TREE_DEPTH, .min = 1,
          .max = LIMIT_TREE_DEPTH),
    FIELD(INT, struct file_find_params, min_size, "bytes", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(INT, struct file_find_params, max_size, "bytes", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(NUM, struct file_find_params, changed_within, "changed during the last so many seconds", .min = 0,
          .max = 1e10),
    FIELD(BOOL, struct file_find_params, hidden, "also names that begin with a dot"),
    FIELD(INT, struct file_find_params, max, "stop after so many", .def = LIST_DEFAULT, .min = 1,
          .max = LIMIT_LIST_ENTRIES),
    { 0 },
};
static const struct field matches_fields[] = {
    FIELD(STR, struct file_matches, path, "where the search began, as an absolute path", .path = true),
    FIELD(ROWS, struct file_matches, matches, "what was found", .always = true, .rows = row_fields,
          .row_size = sizeof(struct file_row)),
    FIELD(INT, struct file_matches, total, "how many were found"),
    FIELD(BOOL, struct file_matches, truncated, "there are more than max, or a limit was reached"),
    { 0 },
};

static const struct field grep_fields[] = {
    FIELD(STR, struct file_grep_params, pattern, "regular expression as ripgrep knows it", .required = true,
          .max = 64 * KiB),
    FIELD(STR, struct file_grep_params, path, "file or directory; relative to /home/gem", .def_str = ".",
          .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct file_grep_params, glob, "only files whose path matches, such as *.py or !*.min.js",
          .max = LIMIT_PATH),
    FIELD(BOOL, struct file_grep_params, case_insensitive, "A is a"),
    FIELD(BOOL, struct file_grep_params, fixed_strings, "pattern is plain text"),
    FIELD(BOOL, struct file_grep_params, multiline, "a match may span lines, and . matches newlines"),
    FIELD(BOOL, struct file_grep_params, include_hidden, "also names that begin with a dot"),
    FIELD(BOOL, struct file_grep_params, no_ignore, "also what .gitignore and its kin exclude"),
    FIELD(INT, struct file_grep_params, context, "lines around each match", .min = 0, .max = CONTEXT_MAX),
    FIELD(INT, struct file_grep_params, before, "lines before each match", .def = FIELD_ABSENT, .min = 0,
          .max = CONTEXT_MAX),
    FIELD(INT, struct file_grep_params, after, "lines after each match", .def = FIELD_ABSENT, .min = 0,
          .max = CONTEXT_MAX),
    FIELD(INT, struct file_grep_params, max_matches, "stop after so many lines that match", .def = GREP_DEFAULT,
          .min = 1, .max = LIMIT_GREP_MATCHES),
    FIELD(INT, struct file_grep_params, offset, "leave out the first so many", .min = 0, .max = 1e9),
    FIELD(STRS, struct file_grep_params, include, "only files that match one of these patterns", .max = 64),
    FIELD(STRS, struct file_grep_params, exclude, "no files or directories that match", .max = 64),
    FIELD(STR, struct file_grep_params, type, "a kind of file as ripgrep names it, such as py", .max = 64),
    FIELD(STR, struct file_grep_params, max_file_size, "no larger files, such as 1M", .max = 24),
    FIELD(BOOL, struct file_grep_params, flat, "do not go into directories"),
    FIELD(BOOL, struct file_grep_params, sudo, "as root of the box"),
    { 0 },
};
static const struct field grep_row_fields[] = {
    FIELD(STR, struct file_grep_row, path, "absolute path", .path = true),
    FIELD(INT, struct file_grep_row, line, "number of the line, from 1"),
    FIELD(INT, struct file_grep_row, column, "of the first match in the line, in bytes, from 1", .def = FIELD_ABSENT),
    FIELD(STR, struct file_grep_row, text, "the line; at most LIMIT_GREP_LINE bytes of it", .always = true),
    FIELD(BOOL, struct file_grep_row, context, "the line is near a match, but is none"),
    { 0 },
};
static const struct field grep_result_fields[] = {
    FIELD(ROWS, struct file_grep_result, matches, "sorted by path and line", .always = true, .rows = grep_row_fields,
          .row_size = sizeof(struct file_grep_row)),
    FIELD(INT, struct file_grep_result, count, "lines that match"),
    FIELD(INT, struct file_grep_result, files, "files with a match"),
    FIELD(INT, struct file_grep_result, searched, "files that were looked at", .def = FIELD_ABSENT),
    FIELD(BOOL, struct file_grep_result, truncated, "more than max_matches, or LIMIT_GREP_OUTPUT was reached"),
    FIELD(STR, struct file_grep_result, warnings, "what could not be searched"),
    { 0 },
};

static const struct field replace_fields[] = {
    PATH_FIELD(struct file_replace_params, "file"),
    FIELD(STR, struct file_replace_params, old, "text to find, exactly", .required = true, .max = LIMIT_FILE_IO,
          .alias = "old_str"),
    FIELD(STR, struct file_replace_params, new, "text to put in its place", .required = true, .max = LIMIT_FILE_IO,
          .alias = "new_str"),
    FIELD(BOOL, struct file_replace_params, all, "every occurrence; false: the first", .def = true),
    FIELD(INT, struct file_replace_params, count, "only the first so many occurrences", .def = FIELD_ABSENT, .min = 1,
          .max = 1e15),
    FIELD(BOOL, struct file_replace_params, last, "only the last occurrence"),
    FIELD(BOOL, struct file_replace_params, none_ok, "no occurrence is no error"),
    FIELD(BOOL, struct file_replace_params, sudo, "as root of the box"),
    { 0 },
};
static const struct field replace_result_fields[] = {
    FIELD(STR, struct file_replace_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_replace_result, replacements, "made"),
    FIELD(INT, struct file_replace_result, found, "occurrences there were"),
    FIELD(INT, struct file_replace_result, size, "bytes of the file now"),
    FIELD(INT, struct file_replace_result, undo_left, "changes of this file that file:edit can take back"),
    { 0 },
};

static const struct field edit_fields[] = {
    FIELD(STR, struct file_edit_params, command, "what to do", .required = true,
          .choices = "view|create|str_replace|insert|undo_edit"),
    PATH_FIELD(struct file_edit_params, "file; view also takes a directory"),
    FIELD(STR, struct file_edit_params, file_text, "create: the whole content", .max = LIMIT_FILE_IO),
    FIELD(STR, struct file_edit_params, old_str, "str_replace: text that occurs exactly once", .max = LIMIT_FILE_IO),
    FIELD(STR, struct file_edit_params, new_str, "str_replace: its replacement; insert: the text to insert",
          .max = LIMIT_FILE_IO, .alias = "insert_text"),
    FIELD(INT, struct file_edit_params, insert_line, "insert: after this line; 0: at the beginning",
          .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(JSON, struct file_edit_params, view_range, "view: [first line, last line]; last -1: to the end", .max = 64),
    FIELD(STR, struct file_edit_params, replace_mode, "str_replace: of several occurrences",
          .choices = "ALL|FIRST|LAST"),
    FIELD(BOOL, struct file_edit_params, exclusive, "create: a file that exists is an error"),
    FIELD(BOOL, struct file_edit_params, contents, "return the whole text before and after"),
    { 0 },
};
static const struct field edit_result_fields[] = {
    FIELD(STR, struct file_edit_result, path, "absolute path", .path = true),
    FIELD(STR, struct file_edit_result, command, "what was done"),
    FIELD(STR, struct file_edit_result, content,
          "the lines, or those around the change, with numbers; the names in a "
          "directory",
          .always = true),
    FIELD(INT, struct file_edit_result, start_line, "first line of content", .def = FIELD_ABSENT),
    FIELD(INT, struct file_edit_result, end_line, "last line of content", .def = FIELD_ABSENT),
    FIELD(INT, struct file_edit_result, lines, "lines of the file now", .def = FIELD_ABSENT),
    FIELD(INT, struct file_edit_result, undo_left, "how many changes of this file undo_edit can take back",
          .def = FIELD_ABSENT),
    FIELD(BOOL, struct file_edit_result, created, "the file did not exist before"),
    FIELD(BOOL, struct file_edit_result, deleted, "undo_edit took back the creation of the file"),
    FIELD(BOOL, struct file_edit_result, existed, "there was something at path before"),
    FIELD(BOOL, struct file_edit_result, directory, "path is one"),
    FIELD(STR, struct file_edit_result, old_content, "contents: the text before"),
    FIELD(STR, struct file_edit_result, new_content, "contents: the text now"),
    { 0 },
};

/* --- with a byte stream --- */

static const struct field upload_fields[] = {
    PATH_FIELD(struct file_upload_params, "file; a directory takes the file under `name`"),
    FIELD(STR, struct file_upload_params, name, "if path is a directory: what to call the file in it", .max = 255,
          .path = true),
    FIELD(STR, struct file_upload_params, mode, "permissions in octal, such as 755", .max = 5),
    FIELD(BOOL, struct file_upload_params, mkdir, "make missing parent directories", .def = true),
    { 0 },
};
static const struct field upload_result_fields[] = {
    FIELD(STR, struct file_upload_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_upload_result, bytes, "written"),
    FIELD(STR, struct file_upload_result, sha256, "of them"),
    FIELD(BOOL, struct file_upload_result, created, "the file did not exist before"),
    { 0 },
};
static const struct field download_fields[] = {
    PATH_FIELD(struct file_download_params, "file"),
    FIELD(INT, struct file_download_params, offset, "first byte; negative: so many from the end", .def = FIELD_ABSENT,
          .min = -1e15, .max = 1e15),
    FIELD(INT, struct file_download_params, length, "how many bytes", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(BOOL, struct file_download_params, only_head, "say what it is, but send nothing of it"),
    FIELD(STR, struct file_download_params, on_change, "if the file changes meanwhile", .def_str = "ignore",
          .choices = "ignore|abort"),
    FIELD(STRS, struct file_download_params, unless_etag, "send nothing if it is still one of these versions",
          .max = 100),
    FIELD(STR, struct file_download_params, range_etag, "all of it, if it is not this version any more", .max = 200),
    { 0 },
};
static const struct field download_result_fields[] = {
    FIELD(STR, struct file_download_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_download_result, size, "of the whole file"),
    FIELD(INT, struct file_download_result, offset, "first byte that was sent"),
    FIELD(INT, struct file_download_result, bytes, "sent"),
    FIELD(STR, struct file_download_result, sha256, "of them"),
    { 0 },
};
static const struct field upload_tar_fields[] = {
    PATH_FIELD(struct file_tar_params, "directory to unpack into"),
    FIELD(BOOL, struct file_tar_params, mkdir, "make it if it is missing", .def = true),
    FIELD(STR, struct file_tar_params, links, "symbolic links that lead out of the directory", .def_str = "inside",
          .choices = "inside|any"),
    { 0 },
};
static const struct field download_tar_fields[] = {
    PATH_FIELD(struct file_tar_params, "directory, or a single file"),
    { 0 },
};
static const struct field tar_result_fields[] = {
    FIELD(STR, struct file_tar_result, path, "absolute path", .path = true),
    FIELD(INT, struct file_tar_result, files, "hard links included"),
    FIELD(INT, struct file_tar_result, directories, "without the first"),
    FIELD(INT, struct file_tar_result, symlinks, ""),
    FIELD(INT, struct file_tar_result, bytes, "of the tar"),
    FIELD(STR, struct file_tar_result, sha256, "of the tar"),
    FIELD(INT, struct file_tar_result, skipped, "sockets, devices, and what could not be read"),
    { 0 },
};

enum { LOOKS = TOOL_READ_ONLY | TOOL_IDEMPOTENT };

#define ROW(verb, params_, params_type, result_, result_type)                                                          \
    .params = params_, .params_size = sizeof(struct params_type), .result = result_,                                   \
    .result_size = sizeof(struct result_type), .run_hand = BOX_CODE(file_##verb##_run)

static const struct tool file_tools[] = {
    { .name = "file:read",
      .title = "Read a file",
      .help = "Reads a file, or some of its lines. Text comes back as it is, other bytes as base64.",
      .flags = TOOL_NEEDS_BOX | TOOL_QUICK | LOOKS,
      .look = SERVE_CODE(file_read_look),
      ROW(read, read_fields, file_read_params, read_result_fields, file_read_result) },
    { .name = "file:write",
      .title = "Write a file",
      .help = "Writes or appends to a file and makes missing directories.",
      .flags = TOOL_NEEDS_BOX,
      ROW(write, write_fields, file_write_params, write_result_fields, file_write_result) },
    { .name = "file:list",
      .title = "List a directory",
      .help = "Lists a directory, also recursively.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(list, list_fields, file_list_params, list_result_fields, file_list_result) },
    { .name = "file:stat",
      .title = "Describe a file",
      .help = "Says what is at a path: type, size, permissions, owner, times.",
      .flags = TOOL_NEEDS_BOX | TOOL_QUICK | LOOKS,
      ROW(stat, stat_fields, file_stat_params, stat_result_fields, file_stat_result) },
    { .name = "file:exists",
      .title = "Does a file exist",
      .help = "Says whether there is something at a path, and what.",
      .flags = TOOL_NEEDS_BOX | TOOL_QUICK | LOOKS,
      ROW(exists, exists_fields, file_exists_params, exists_result_fields, file_exists_result) },
    { .name = "file:mkdir",
      .title = "Make a directory",
      .help = "Makes a directory and its missing parents.",
      .flags = TOOL_NEEDS_BOX | TOOL_IDEMPOTENT,
      ROW(mkdir, mkdir_fields, file_mkdir_params, mkdir_result_fields, file_mkdir_result) },
    { .name = "file:move",
      .title = "Move or rename",
      .help = "Moves or renames a file or a directory.",
      .flags = TOOL_NEEDS_BOX,
      ROW(move, move_fields, file_move_params, move_result_fields, file_move_result) },
    { .name = "file:copy",
      .title = "Copy",
      .help = "Copies a file or a whole directory with permissions, times, symlinks and hard links.",
      .flags = TOOL_NEEDS_BOX,
      ROW(copy, copy_fields, file_move_params, copy_result_fields, file_move_result) },
    { .name = "file:delete",
      .title = "Delete",
      .help = "Deletes a file, a symlink or a directory.",
      .flags = TOOL_NEEDS_BOX,
      ROW(delete, delete_fields, file_delete_params, delete_result_fields, file_delete_result) },
    { .name = "file:glob",
      .title = "Find paths by pattern",
      .help = "Finds paths that match a pattern such as src/**/*.{c,h}, by name or newest first.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(glob, glob_fields, file_glob_params, matches_fields, file_matches) },
    { .name = "file:find",
      .title = "Find files by their properties",
      .help = "Finds files below a directory by name, type, size and age.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(find, find_fields, file_find_params, matches_fields, file_matches) },
    { .name = "file:grep",
      .title = "Search in files",
      .help = "Searches the content of files with ripgrep and returns the lines that match.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(grep, grep_fields, file_grep_params, grep_result_fields, file_grep_result) },
    { .name = "file:replace",
      .title = "Replace text in a file",
      .help = "Replaces every, the first, or the first few occurrences of a text.",
      .flags = TOOL_NEEDS_BOX,
      ROW(replace, replace_fields, file_replace_params, replace_result_fields, file_replace_result) },
    { .name = "file:edit",
      .title = "Edit a file",
      .help = "Views, creates and edits a file: str_replace needs a text that occurs exactly once, insert puts text "
              "after a line, undo_edit takes back the last change.",
      .flags = TOOL_NEEDS_BOX,
      ROW(edit, edit_fields, file_edit_params, edit_result_fields, file_edit_result) },
    { .name = "file:upload",
      .title = "Upload a file",
      .help = "Writes a byte stream to a file, which appears when all of it is there.",
      .flags = TOOL_NEEDS_BOX | TOOL_STREAM | TOOL_PARALLEL,
      ROW(upload, upload_fields, file_upload_params, upload_result_fields, file_upload_result) },
    { .name = "file:download",
      .title = "Download a file",
      .help = "Sends a file, or a range of it, as a byte stream.",
      .flags = TOOL_NEEDS_BOX | TOOL_STREAM | TOOL_PARALLEL | LOOKS,
      ROW(download, download_fields, file_download_params, download_result_fields, file_download_result) },
    { .name = "file:upload_tar",
      .title = "Upload a directory",
      .help = "Unpacks a tar from a byte stream into a directory.",
      .flags = TOOL_NEEDS_BOX | TOOL_STREAM | TOOL_PARALLEL,
      ROW(upload_tar, upload_tar_fields, file_tar_params, tar_result_fields, file_tar_result) },
    { .name = "file:download_tar",
      .title = "Download a directory",
      .help = "Sends a directory as a tar over a byte stream.",
      .flags = TOOL_NEEDS_BOX | TOOL_STREAM | TOOL_PARALLEL | LOOKS,
      ROW(download_tar, download_tar_fields, file_tar_params, tar_result_fields, file_tar_result) },
};

const struct backend backend_file = { .name = "file",
                                      .help = "Read, write, find and edit files of the box.",
                                      .kind = KIND_SESSION,
                                      .tools = file_tools,
                                      .tool_count = ARRAY_LEN(file_tools) };
