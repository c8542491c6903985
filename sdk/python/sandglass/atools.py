# Written by generate.py from the server's table of tools; not to be edited.

"""Every tool of the server as a method."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NoReturn

from .result import Result
from .schema import nearest

if TYPE_CHECKING:
    from .aclient import AsyncBox


class AsyncNamespace:
    """The tools of one backend of a box."""

    def __init__(self, box: AsyncBox, backend: str) -> None:
        self._box, self._backend = box, backend

    def __repr__(self) -> str:
        return f"<tools {self._backend}:* of {self._box.id}>"

    def __call__(self, *unused: Any, **unnamed: Any) -> NoReturn:
        raise AttributeError(f"a box has no method {self._backend}()")

    async def _call(self, tool: str, params: Mapping[str, Any]) -> Result:
        return await self._box.call(tool, {k: v for k, v in params.items() if v is not None})

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Result]]:
        if name.startswith("_"):
            raise AttributeError(name)

        async def tool(*unnamed: Any, **params: Any) -> Result:
            action = f"{self._backend}:{name}"
            if unnamed:
                raise TypeError(f"{action}: this package does not know this tool, so its parameters must be named")
            result = await self._call(action, params)
            if result.outcome == "invalid_request" and result.message.startswith("Tool not found"):
                near = nearest(action, await self._box.client.tool_table())
                result.message += f"; did you mean {near}?" if near else ""
            return result

        return tool


class AsyncBashTools(AsyncNamespace):
    """Tools `bash:*`."""

    async def run(
        self, command: str, timeout: float | None = None, *, stdin: str | None = None, cwd: str | None = None, env:
        Mapping[str, Any] | None = None
    ) -> Result:
        """Runs a command in a persistent bash. Directory, variables and functions stay for the next call.

        Parameters:
            command: what bash executes; directory and variables persist between calls
            timeout: seconds after which the command is ended
            stdin: what the command reads; without it, a command that reads is reported as waiting_for_input
            cwd: directory for this command only
            env: variables for this command only

        Fields of the result: stdout, stderr, exit_code, return_code, cwd, status, prompt, signal, shell_exited,
        shell_restarted, stdout_bytes, stderr_bytes, stdout_kept, stderr_kept, background, job_id.
        """
        return await self._call("bash:run", {
            "command": command, "timeout": timeout, "stdin": stdin, "cwd": cwd, "env": env
        })

    async def input(
        self, data: str | None = None, eof: bool | None = None, *, job_id: str | None = None, timeout: float | None =
        None
    ) -> Result:
        """Gives input to a command that is waiting for it, or to a background program.

        Parameters:
            data: what the program reads next; include the newline
            eof: then end its input
            job_id: a background program; absent: the shell's command
            timeout: seconds after which the command is ended

        Fields of the result: stdout, stderr, exit_code, return_code, cwd, status, prompt, signal, shell_exited,
        shell_restarted, stdout_bytes, stderr_bytes, stdout_kept, stderr_kept, background, job_id.
        """
        return await self._call("bash:input", {"data": data, "eof": eof, "job_id": job_id, "timeout": timeout})

    async def interrupt(self, job_id: str | None = None) -> Result:
        """Sends SIGINT, as control-C would.

        Parameters:
            job_id: a background program; absent: the shell's command

        Fields of the result: stdout, stderr, exit_code, return_code, cwd, status, prompt, signal, shell_exited,
        shell_restarted, stdout_bytes, stderr_bytes, stdout_kept, stderr_kept, background, job_id.
        """
        return await self._call("bash:interrupt", {"job_id": job_id})

    async def kill(self, job_id: str | None = None) -> Result:
        """Kills the command under way, or a background program, with all its children.

        Parameters:
            job_id: a background program; absent: the shell's command

        Fields of the result: stdout, stderr, exit_code, return_code, cwd, status, prompt, signal, shell_exited,
        shell_restarted, stdout_bytes, stderr_bytes, stdout_kept, stderr_kept, background, job_id.
        """
        return await self._call("bash:kill", {"job_id": job_id})

    async def start(self, command: str, cwd: str | None = None, *, env: Mapping[str, Any] | None = None) -> Result:
        """Starts a program that goes on while other commands run, such as a server.

        Parameters:
            command: what bash executes in the background
            cwd: directory; relative to /home/gem
            env: more variables

        Fields of the result: job_id, pid.
        """
        return await self._call("bash:start", {"command": command, "cwd": cwd, "env": env})

    async def output(
        self, job_id: str, offset: int | None = None, *, stderr_offset: int | None = None, wait_ms: int | None = None
    ) -> Result:
        """Returns what a background program wrote since the last call, and whether it still runs.

        Parameters:
            job_id: as bash:start returned it
            offset: of stdout; without it: where the last call ended
            stderr_offset: the same for stderr
            wait_ms: wait so long for output or the end, if there is nothing new

        Fields of the result: job_id, status, stdout, stderr, exit_code, signal, offset, stderr_offset, stdout_bytes,
        stderr_bytes.
        """
        return await self._call("bash:output", {
            "job_id": job_id, "offset": offset, "stderr_offset": stderr_offset, "wait_ms": wait_ms
        })

    async def list(self) -> Result:
        """Lists what is running.

        Fields of the result: shells, jobs.
        """
        return await self._call("bash:list", {})


class AsyncFileTools(AsyncNamespace):
    """Tools `file:*`."""

    async def read(
        self, path: str, encoding: str | None = None, *, start_line: int | None = None, end_line: int | None = None,
        sudo: bool | None = None
    ) -> Result:
        """Reads a file, or some of its lines. Text comes back as it is, other bytes as base64.

        Parameters:
            path: file; relative to /home/gem
            encoding: how to return the content; auto: text if it is UTF-8 (auto, utf-8, base64)
            start_line: first line, from 1
            end_line: last line, inclusive
            sudo: as root of the box

        Fields of the result: content, encoding, path, size, lines, truncated.
        """
        return await self._call("file:read", {
            "path": path, "encoding": encoding, "start_line": start_line, "end_line": end_line, "sudo": sudo
        })

    async def write(
        self, path: str, content: str | None = None, *, data: str | None = None, append: bool | None = None, mkdir: bool
        | None = None, mode: str | None = None, sudo: bool | None = None
    ) -> Result:
        """Writes or appends to a file and makes missing directories.

        Parameters:
            path: file; relative to /home/gem
            content: text to write
            data: bytes to write, instead of content
            append: add to the end instead of replacing
            mkdir: make missing parent directories
            mode: permissions in octal, such as 755
            sudo: as root of the box

        Fields of the result: path, bytes, created.
        """
        return await self._call("file:write", {
            "path": path, "content": content, "data": data, "append": append, "mkdir": mkdir, "mode": mode, "sudo": sudo
        })

    async def list(
        self, path: str | None = None, recursive: bool | None = None, *, hidden: bool | None = None, max_entries: int |
        None = None, max_depth: int | None = None, extensions: Sequence[str] | None = None, sort: str | None = None,
        reverse: bool | None = None, follow: bool | None = None
    ) -> Result:
        """Lists a directory, also recursively.

        Parameters:
            path: directory; relative to /home/gem
            recursive: go into directories
            hidden: also names that begin with a dot
            max_entries: stop after so many
            max_depth: recursive: 1 is only the directory itself
            extensions: only files whose names end so, such as .py
            sort: by what (name, filename, mtime, size, type)
            reverse: the other way round
            follow: describe what symlinks point to, not the links

        Fields of the result: path, entries, truncated.
        """
        return await self._call("file:list", {
            "path": path, "recursive": recursive, "hidden": hidden, "max_entries": max_entries, "max_depth": max_depth,
            "extensions": extensions, "sort": sort, "reverse": reverse, "follow": follow
        })

    async def stat(self, path: str, follow: bool | None = None) -> Result:
        """Says what is at a path: type, size, permissions, owner, times.

        Parameters:
            path: anything; relative to /home/gem
            follow: describe what a symlink points to, not the link

        Fields of the result: path, type, size, mode, uid, gid, links, inode, mtime, atime, ctime, target.
        """
        return await self._call("file:stat", {"path": path, "follow": follow})

    async def exists(self, path: str) -> Result:
        """Says whether there is something at a path, and what.

        Parameters:
            path: anything; relative to /home/gem

        Fields of the result: path, exists, type.
        """
        return await self._call("file:exists", {"path": path})

    async def mkdir(self, path: str, parents: bool | None = None, *, mode: str | None = None) -> Result:
        """Makes a directory and its missing parents.

        Parameters:
            path: directory; relative to /home/gem
            parents: make missing parents, and be content if it exists
            mode: permissions in octal, such as 755

        Fields of the result: path, created.
        """
        return await self._call("file:mkdir", {"path": path, "parents": parents, "mode": mode})

    async def move(
        self, source: str, destination: str, *, overwrite: bool | None = None, mkdir: bool | None = None, name: str |
        None = None, into: bool | None = None
    ) -> Result:
        """Moves or renames a file or a directory.

        Parameters:
            source: file or directory; relative to /home/gem
            destination: new path, or an existing directory to put it into
            overwrite: replace a file that exists at the destination
            mkdir: make missing parent directories
            name: if destination is a directory: what to call it there
            into: as a new content: links at the destination are followed, its mode stays

        Fields of the result: source, destination.
        """
        return await self._call("file:move", {
            "source": source, "destination": destination, "overwrite": overwrite, "mkdir": mkdir, "name": name, "into":
            into
        })

    async def copy(
        self, source: str, destination: str, *, overwrite: bool | None = None, mkdir: bool | None = None, recursive:
        bool | None = None
    ) -> Result:
        """Copies a file or a whole directory with permissions, times, symlinks and hard links.

        Parameters:
            source: file or directory; relative to /home/gem
            destination: new path, or an existing directory to put it into
            overwrite: replace a file that exists at the destination
            mkdir: make missing parent directories
            recursive: copy directories with all that is in them

        Fields of the result: source, destination, files, directories, bytes, skipped.
        """
        return await self._call("file:copy", {
            "source": source, "destination": destination, "overwrite": overwrite, "mkdir": mkdir, "recursive": recursive
        })

    async def delete(self, path: str, recursive: bool | None = None, *, missing_ok: bool | None = None) -> Result:
        """Deletes a file, a symlink or a directory.

        Parameters:
            path: file or directory; relative to /home/gem
            recursive: needed for a directory that is not empty
            missing_ok: no error if it does not exist

        Fields of the result: path, deleted.
        """
        return await self._call("file:delete", {"path": path, "recursive": recursive, "missing_ok": missing_ok})

    async def glob(
        self, pattern: str, path: str | None = None, *, sort: str | None = None, reverse: bool | None = None, follow:
        bool | None = None, files_only: bool | None = None, exclude: Sequence[str] | None = None, hidden: bool | None =
        None, max: int | None = None
    ) -> Result:
        """Finds paths that match a pattern such as src/**/*.{c,h}, by name or newest first.

        Parameters:
            pattern: *, ?, [a-z], {a,b}; ** is any number of directories
            path: directory in which to search; relative to /home/gem
            sort: by what; mtime: newest first (name, mtime, filename, size, type)
            reverse: the other way round
            follow: describe what symlinks point to, not the links
            files_only: no directories
            exclude: patterns of names, or of paths below path, to leave out
            hidden: wildcards also match names that begin with a dot
            max: return so many

        Fields of the result: path, matches, total, truncated.
        """
        return await self._call("file:glob", {
            "pattern": pattern, "path": path, "sort": sort, "reverse": reverse, "follow": follow, "files_only":
            files_only, "exclude": exclude, "hidden": hidden, "max": max
        })

    async def find(
        self, path: str | None = None, name: str | None = None, *, type: str | None = None, max_depth: int | None =
        None, min_size: int | None = None, max_size: int | None = None, changed_within: float | None = None, hidden:
        bool | None = None, max: int | None = None
    ) -> Result:
        """Finds files below a directory by name, type, size and age.

        Parameters:
            path: directory in which to search; relative to /home/gem
            name: pattern of the last part of the path, such as *.c
            type: what to find (any, file, directory, symlink)
            max_depth: 1: only the directory itself
            min_size: bytes
            max_size: bytes
            changed_within: changed during the last so many seconds
            hidden: also names that begin with a dot
            max: stop after so many

        Fields of the result: path, matches, total, truncated.
        """
        return await self._call("file:find", {
            "path": path, "name": name, "type": type, "max_depth": max_depth, "min_size": min_size, "max_size":
            max_size, "changed_within": changed_within, "hidden": hidden, "max": max
        })

    async def grep(
        self, pattern: str, path: str | None = None, *, glob: str | None = None, case_insensitive: bool | None = None,
        fixed_strings: bool | None = None, multiline: bool | None = None, include_hidden: bool | None = None, no_ignore:
        bool | None = None, context: int | None = None, before: int | None = None, after: int | None = None,
        max_matches: int | None = None, offset: int | None = None, include: Sequence[str] | None = None, exclude:
        Sequence[str] | None = None, type: str | None = None, max_file_size: str | None = None, flat: bool | None =
        None, sudo: bool | None = None
    ) -> Result:
        """Searches the content of files with ripgrep and returns the lines that match.

        Parameters:
            pattern: regular expression as ripgrep knows it
            path: file or directory; relative to /home/gem
            glob: only files whose path matches, such as *.py or !*.min.js
            case_insensitive: A is a
            fixed_strings: pattern is plain text
            multiline: a match may span lines, and . matches newlines
            include_hidden: also names that begin with a dot
            no_ignore: also what .gitignore and its kin exclude
            context: lines around each match
            before: lines before each match
            after: lines after each match
            max_matches: stop after so many lines that match
            offset: leave out the first so many
            include: only files that match one of these patterns
            exclude: no files or directories that match
            type: a kind of file as ripgrep names it, such as py
            max_file_size: no larger files, such as 1M
            flat: do not go into directories
            sudo: as root of the box

        Fields of the result: matches, count, files, searched, truncated, warnings.
        """
        return await self._call("file:grep", {
            "pattern": pattern, "path": path, "glob": glob, "case_insensitive": case_insensitive, "fixed_strings":
            fixed_strings, "multiline": multiline, "include_hidden": include_hidden, "no_ignore": no_ignore, "context":
            context, "before": before, "after": after, "max_matches": max_matches, "offset": offset, "include": include,
            "exclude": exclude, "type": type, "max_file_size": max_file_size, "flat": flat, "sudo": sudo
        })

    async def replace(
        self, path: str, old: str, new: str, *, all: bool | None = None, count: int | None = None, last: bool | None =
        None, none_ok: bool | None = None, sudo: bool | None = None
    ) -> Result:
        """Replaces every, the first, or the first few occurrences of a text.

        Parameters:
            path: file; relative to /home/gem
            old: text to find, exactly
            new: text to put in its place
            all: every occurrence; false: the first
            count: only the first so many occurrences
            last: only the last occurrence
            none_ok: no occurrence is no error
            sudo: as root of the box

        Fields of the result: path, replacements, found, size, undo_left.
        """
        return await self._call("file:replace", {
            "path": path, "old": old, "new": new, "all": all, "count": count, "last": last, "none_ok": none_ok, "sudo":
            sudo
        })

    async def edit(
        self, command: str, path: str, *, file_text: str | None = None, old_str: str | None = None, new_str: str | None
        = None, insert_line: int | None = None, view_range: Any | None = None, replace_mode: str | None = None,
        exclusive: bool | None = None, contents: bool | None = None
    ) -> Result:
        """Views, creates and edits a file: str_replace needs a text that occurs exactly once, insert puts text after a
        line, undo_edit takes back the last change.

        Parameters:
            command: what to do (view, create, str_replace, insert, undo_edit)
            path: file; view also takes a directory; relative to /home/gem
            file_text: create: the whole content
            old_str: str_replace: text that occurs exactly once
            new_str: str_replace: its replacement; insert: the text to insert
            insert_line: insert: after this line; 0: at the beginning
            view_range: view: [first line, last line]; last -1: to the end
            replace_mode: str_replace: of several occurrences (ALL, FIRST, LAST)
            exclusive: create: a file that exists is an error
            contents: return the whole text before and after

        Fields of the result: path, command, content, start_line, end_line, lines, undo_left, created, deleted,
        existed, directory, old_content, new_content.
        """
        return await self._call("file:edit", {
            "command": command, "path": path, "file_text": file_text, "old_str": old_str, "new_str": new_str,
            "insert_line": insert_line, "view_range": view_range, "replace_mode": replace_mode, "exclusive": exclusive,
            "contents": contents
        })

    async def upload(
        self, path: str, name: str | None = None, *, mode: str | None = None, mkdir: bool | None = None
    ) -> Result:
        """Writes a byte stream to a file, which appears when all of it is there.

        Parameters:
            path: file; a directory takes the file under `name`; relative to /home/gem
            name: if path is a directory: what to call the file in it
            mode: permissions in octal, such as 755
            mkdir: make missing parent directories

        Fields of the result: path, bytes, sha256, created.
        """
        return await self._call("file:upload", {"path": path, "name": name, "mode": mode, "mkdir": mkdir})

    async def download(
        self, path: str, offset: int | None = None, *, length: int | None = None, only_head: bool | None = None,
        on_change: str | None = None, unless_etag: Sequence[str] | None = None, range_etag: str | None = None
    ) -> Result:
        """Sends a file, or a range of it, as a byte stream.

        Parameters:
            path: file; relative to /home/gem
            offset: first byte; negative: so many from the end
            length: how many bytes
            only_head: say what it is, but send nothing of it
            on_change: if the file changes meanwhile (ignore, abort)
            unless_etag: send nothing if it is still one of these versions
            range_etag: all of it, if it is not this version any more

        Fields of the result: path, size, offset, bytes, sha256.
        """
        return await self._call("file:download", {
            "path": path, "offset": offset, "length": length, "only_head": only_head, "on_change": on_change,
            "unless_etag": unless_etag, "range_etag": range_etag
        })

    async def upload_tar(self, path: str, mkdir: bool | None = None, *, links: str | None = None) -> Result:
        """Unpacks a tar from a byte stream into a directory.

        Parameters:
            path: directory to unpack into; relative to /home/gem
            mkdir: make it if it is missing
            links: symbolic links that lead out of the directory (inside, any)

        Fields of the result: path, files, directories, symlinks, bytes, sha256, skipped.
        """
        return await self._call("file:upload_tar", {"path": path, "mkdir": mkdir, "links": links})

    async def download_tar(self, path: str) -> Result:
        """Sends a directory as a tar over a byte stream.

        Parameters:
            path: directory, or a single file; relative to /home/gem

        Fields of the result: path, files, directories, symlinks, bytes, sha256, skipped.
        """
        return await self._call("file:download_tar", {"path": path})


class AsyncCodeTools(AsyncNamespace):
    """Tools `code:*`."""

    async def execute(
        self, code: str, language: str | None = None, *, timeout: float | None = None, stdin: str | None = None, args:
        Sequence[str] | None = None, session: str | None = None, cwd: str | None = None, version: str | None = None,
        files: Mapping[str, Any] | None = None, memory_limit_mb: int | None = None, cpu_limit: float | None = None,
        max_idle: float | None = None
    ) -> Result:
        """Runs a program in one of several languages. Without a session: in a fresh process, of which only files stay.
        With a session: Python, JavaScript or bash in a context that keeps its variables for the next call.

        Parameters:
            code: the program
            language: its language (python, javascript, bash, c, cpp, go, rust, java, perl, ruby)
            timeout: seconds after which it is ended, with all that it started
            stdin: what it reads
            args: its arguments
            session: python, javascript, bash: a context of that name, which keeps its variables; without it, a fresh
            process
            cwd: directory; /home/gem unless it is named. In a session it lasts
            version: javascript: of Node.js, 20 or node20; an error if there is no such one
            files: written before it runs, by name; relative to cwd
            memory_limit_mb: MiB of data that one process may have; 0: what the box has
            cpu_limit: seconds of processor time of one process; 0: no limit
            max_idle: session: of a new one, seconds without a call after which it ends; 0: never

        Fields of the result: stdout, stderr, return_code, exit_code, execution_time_ms, memory_used_mb, language,
        status, result, ename, evalue, traceback, figures, execution_count, session, restarted, carried, lost, signal,
        stdout_bytes, stderr_bytes.
        """
        return await self._call("code:execute", {
            "code": code, "language": language, "timeout": timeout, "stdin": stdin, "args": args, "session": session,
            "cwd": cwd, "version": version, "files": files, "memory_limit_mb": memory_limit_mb, "cpu_limit": cpu_limit,
            "max_idle": max_idle
        })

    async def languages(self) -> Result:
        """Lists the languages whose programs are in the box and run, with their versions.

        Fields of the result: languages.
        """
        return await self._call("code:languages", {})

    async def open(
        self, session: str, language: str | None = None, *, cwd: str | None = None, max_idle: float | None = None,
        version: str | None = None, must_exist: bool | None = None, fresh: bool | None = None
    ) -> Result:
        """Makes a context of Python or JavaScript, if there is none of that name.

        Parameters:
            session: its name
            language: of the context (python, javascript)
            cwd: its directory; /home/gem unless it is named
            max_idle: seconds without a call after which it ends; 0: never
            version: javascript: of Node.js, 20 or node20; an error if there is no such one
            must_exist: it is an error if there is none of that name
            fresh: an interpreter that is started now: none that waited, and with python.fork no fork, so its seeds
            are its own

        Fields of the result: session, language, cwd, created, created_at, max_idle.
        """
        return await self._call("code:open", {
            "session": session, "language": language, "cwd": cwd, "max_idle": max_idle, "version": version,
            "must_exist": must_exist, "fresh": fresh
        })

    async def save(self, session: str, path: str) -> Result:
        """Writes the variables, functions, classes and imports of a Python context to a file, which a fork of the box
        has too. Open files, sockets, threads and generators cannot be saved; their names are returned.

        Parameters:
            session: a Python context
            path: file; relative to /home/gem

        Fields of the result: path, bytes, lost.
        """
        return await self._call("code:save", {"session": session, "path": path})

    async def load(self, session: str, path: str) -> Result:
        """Makes a Python context like the one that was saved to a file.

        Parameters:
            session: a Python context
            path: file; relative to /home/gem

        Fields of the result: path, bytes, lost.
        """
        return await self._call("code:load", {"session": session, "path": path})

    async def fork(self, session: str, to: str) -> Result:
        """Makes a second Python context that goes on where this one is: its process is forked, so that everything in it
        is there, open files and generators too, in memory that both share until they change it. Threads end.

        Parameters:
            session: which context
            to: name of the copy

        Fields of the result: session, language, cwd, created, created_at, max_idle.
        """
        return await self._call("code:fork", {"session": session, "to": to})

    async def contexts(self) -> Result:
        """Lists the contexts of the box.

        Fields of the result: sessions.
        """
        return await self._call("code:contexts", {})

    async def end(self, session: str | None = None, all: bool | None = None) -> Result:
        """Ends a context and all that it started.

        Parameters:
            session: which context
            all: every one

        Fields of the result: count.
        """
        return await self._call("code:end", {"session": session, "all": all})

    async def stop(self, session: str) -> Result:
        """Interrupts what a context runs; its variables stay.

        Parameters:
            session: which context

        Fields of the result: count.
        """
        return await self._call("code:stop", {"session": session})

    async def program(
        self, argv: Sequence[str], cwd: str | None = None, *, env: Mapping[str, Any] | None = None, stdin: str | None =
        None, timeout: float | None = None
    ) -> Result:
        """Runs one program with its arguments, without a shell: nothing in them is interpreted. Nothing that it starts
        outlives the call; files do.

        Parameters:
            argv: the program and its arguments, as they are: no shell reads them
            cwd: directory; relative to /home/gem
            env: more variables
            stdin: what it reads
            timeout: seconds after which it is ended, with all that it started

        Fields of the result: stdout, stderr, return_code, exit_code, execution_time_ms, memory_used_mb, language,
        status, result, ename, evalue, traceback, figures, execution_count, session, restarted, carried, lost, signal,
        stdout_bytes, stderr_bytes.
        """
        return await self._call("code:program", {
            "argv": argv, "cwd": cwd, "env": env, "stdin": stdin, "timeout": timeout
        })

    async def read(self, file_path: str, offset: int | None = None, *, limit: int | None = None) -> Result:
        """Returns lines of a text file, each with its number.

        Parameters:
            file_path: file; relative to /home/gem
            offset: first line, from 1
            limit: so many lines

        Fields of the result: result.
        """
        return await self._call("code:read", {"file_path": file_path, "offset": offset, "limit": limit})

    async def glob(self, pattern: str, path: str | None = None) -> Result:
        """Returns the paths that match a pattern, one per line.

        Parameters:
            pattern: *, ?, [a-z], {a,b}; ** is any number of directories
            path: directory in which to search; relative to /home/gem

        Fields of the result: result.
        """
        return await self._call("code:glob", {"pattern": pattern, "path": path})

    async def grep(self, pattern: str, path: str | None = None, *, glob: str | None = None) -> Result:
        """Returns the lines that match as path:number:text, as grep -rn does.

        Parameters:
            pattern: regular expression as grep knows it
            path: file or directory; relative to /home/gem
            glob: only files whose name matches

        Fields of the result: result.
        """
        return await self._call("code:grep", {"pattern": pattern, "path": path, "glob": glob})

    async def bash(self, command: str, timeout: float | None = None) -> Result:
        """Runs a command in a fresh bash and returns stdout and stderr as one text.

        Parameters:
            command: what a fresh bash executes
            timeout: seconds after which it is ended, with all that it started

        Fields of the result: result, exit_code, status.
        """
        return await self._call("code:bash", {"command": command, "timeout": timeout})

    async def edit(
        self, file_path: str, old_string: str, new_string: str, *, replace_all: bool | None = None
    ) -> Result:
        """Replaces a text that occurs exactly once, or every occurrence of it.

        Parameters:
            file_path: file; relative to /home/gem
            old_string: text that occurs exactly once
            new_string: its replacement
            replace_all: replace every occurrence

        Fields of the result: result.
        """
        return await self._call("code:edit", {
            "file_path": file_path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all
        })

    async def write(self, file_path: str, content: str) -> Result:
        """Writes a file and makes missing directories.

        Parameters:
            file_path: file; relative to /home/gem
            content: its whole content

        Fields of the result: result.
        """
        return await self._call("code:write", {"file_path": file_path, "content": content})


class AsyncJupyterTools(AsyncNamespace):
    """Tools `jupyter:*`."""

    async def execute(
        self, code: str, session: str | None = None, *, kernel_name: str | None = None, timeout: float | None = None,
        cwd: str | None = None, stdin: Sequence[str] | None = None, allow_stdin: bool | None = None, silent: bool | None
        = None, once: bool | None = None, max_idle: float | None = None
    ) -> Result:
        """Runs code in a Jupyter kernel. Variables stay for the next cell; tables, images and errors come back as
        notebook outputs.

        Parameters:
            code: the cell
            session: which kernel; without it, the one of this worker
            kernel_name: kind of a new kernel: python3 unless it is named
            timeout: seconds after which the cell is interrupted; its variables stay
            cwd: directory, entered before; it lasts
            stdin: answers to input(), in order; without one, a cell that asks is reported as waiting_for_input
            allow_stdin: false: input() is an error at once; for callers who never answer
            silent: no output is collected and the cell has no number
            once: the session ends after this cell
            max_idle: seconds without a call after which the session ends; 0: never

        Fields of the result: status, outputs, execution_count, stdout, stderr, ename, evalue, traceback, prompt,
        password, background, kernel_restarted, carried, lost, kernel_died, session, kernel_name, msg_id,
        execution_time_ms.
        """
        return await self._call("jupyter:execute", {
            "code": code, "session": session, "kernel_name": kernel_name, "timeout": timeout, "cwd": cwd, "stdin":
            stdin, "allow_stdin": allow_stdin, "silent": silent, "once": once, "max_idle": max_idle
        })

    async def input(self, text: str, session: str | None = None, *, timeout: float | None = None) -> Result:
        """Gives the answer to input() in a cell that is waiting for it, and goes on with the cell.

        Parameters:
            text: the answer, without a newline
            session: which kernel; without it, the one of this worker
            timeout: as in execute

        Fields of the result: status, outputs, execution_count, stdout, stderr, ename, evalue, traceback, prompt,
        password, background, kernel_restarted, carried, lost, kernel_died, session, kernel_name, msg_id,
        execution_time_ms.
        """
        return await self._call("jupyter:input", {"text": text, "session": session, "timeout": timeout})

    async def create(
        self, session: str | None = None, kernel_name: str | None = None, *, cwd: str | None = None, max_idle: float |
        None = None
    ) -> Result:
        """Starts the kernel of a session, if it is not there yet.

        Parameters:
            session: which kernel; without it, the one of this worker
            kernel_name: kind of kernel: python3 unless it is named
            cwd: its directory; /home/gem unless it is named
            max_idle: seconds without a call after which the session ends; 0: never

        Fields of the result: session, kernel_name.
        """
        return await self._call("jupyter:create", {
            "session": session, "kernel_name": kernel_name, "cwd": cwd, "max_idle": max_idle
        })

    async def list(self) -> Result:
        """Lists the sessions of the box.

        Fields of the result: sessions.
        """
        return await self._call("jupyter:list", {})

    async def delete(self, session: str | None = None, all: bool | None = None) -> Result:
        """Ends a session with its kernel and all that it started.

        Parameters:
            session: which kernel; without it, the one of this worker
            all: every session of the box

        Fields of the result: deleted.
        """
        return await self._call("jupyter:delete", {"session": session, "all": all})

    async def interrupt(self, session: str | None = None) -> Result:
        """Interrupts the cell under way, as the stop button does. Variables stay.

        Parameters:
            session: which kernel; without it, the one of this worker

        Fields of the result: interrupted.
        """
        return await self._call("jupyter:interrupt", {"session": session})

    async def restart(self, session: str | None = None) -> Result:
        """Ends the kernel and starts a new one. Variables are gone, files are not.

        Parameters:
            session: which kernel; without it, the one of this worker

        Fields of the result: session, kernel_name.
        """
        return await self._call("jupyter:restart", {"session": session})

    async def complete(
        self, code: str, cursor_pos: int | None = None, *, detail_level: int | None = None, session: str | None = None
    ) -> Result:
        """What could stand at a place in a cell.

        Parameters:
            code: text of a cell
            cursor_pos: in characters; at the end unless it is given
            detail_level: inspect: 1 shows the source too
            session: which kernel; without it, the one of this worker

        Fields of the result: matches, cursor_start, cursor_end.
        """
        return await self._call("jupyter:complete", {
            "code": code, "cursor_pos": cursor_pos, "detail_level": detail_level, "session": session
        })

    async def inspect(
        self, code: str, cursor_pos: int | None = None, *, detail_level: int | None = None, session: str | None = None
    ) -> Result:
        """What is known about the name at a place in a cell: signature, documentation.

        Parameters:
            code: text of a cell
            cursor_pos: in characters; at the end unless it is given
            detail_level: inspect: 1 shows the source too
            session: which kernel; without it, the one of this worker

        Fields of the result: found, text, data.
        """
        return await self._call("jupyter:inspect", {
            "code": code, "cursor_pos": cursor_pos, "detail_level": detail_level, "session": session
        })

    async def info(self) -> Result:
        """Lists the kernel specs that are installed in the box.

        Fields of the result: kernels, default_kernel, active_sessions, max_sessions.
        """
        return await self._call("jupyter:info", {})


class AsyncAgentscopeTools(AsyncNamespace):
    """Tools `agentscope:*`."""

    async def run_ipython_cell(self, code: str) -> Result:
        """Runs Python code in a kernel that keeps its variables, and returns what it wrote.

        Parameters:
            code: the cell; variables stay for the next one

        Fields of the result: content, isError.
        """
        return await self._call("agentscope:run_ipython_cell", {"code": code})

    async def run_shell_command(self, command: str) -> Result:
        """Runs a command in a fresh shell and returns stdout, stderr and the return code.

        Parameters:
            command: what a fresh /bin/sh executes in /home/gem

        Fields of the result: content, isError.
        """
        return await self._call("agentscope:run_shell_command", {"command": command})


class AsyncDsTools(AsyncNamespace):
    """Tools `ds:*`."""

    async def inspect_data(self, seed_path: str) -> Result:
        """For every CSV file of a directory: rows, columns, types, missing values, duplicates.

        Parameters:
            seed_path: directory of the CSV files, in the box; relative to /home/gem

        Fields of the result: result, images.
        """
        return await self._call("ds:inspect_data", {"seed_path": seed_path})

    async def read_csv(self, csv_file: str, seed_path: str, *, max_rows: int | None = None) -> Result:
        """Shows the first rows of a CSV file.

        Parameters:
            csv_file: name of the file
            max_rows: how many rows are shown
            seed_path: directory of the CSV files, in the box; relative to /home/gem

        Fields of the result: result, images.
        """
        return await self._call("ds:read_csv", {"csv_file": csv_file, "max_rows": max_rows, "seed_path": seed_path})

    async def run_python(
        self, seed_path: str, code: str | None = None, *, return_vars: Sequence[str] | None = None
    ) -> Result:
        """Runs Python in the directory of the CSV files, in a fresh process; returns what it printed, variables and
        figures.

        Parameters:
            code: runs in seed_path; without it, a description of every file
            return_vars: variables to show afterwards
            seed_path: directory of the CSV files, in the box; relative to /home/gem

        Fields of the result: result, images.
        """
        return await self._call("ds:run_python", {"code": code, "return_vars": return_vars, "seed_path": seed_path})


class AsyncShellTools(AsyncNamespace):
    """Tools `shell:*`."""

    async def exec(
        self, command: str, id: str | None = None, *, exec_dir: str | None = None, async_mode: bool | None = None,
        timeout: float | None = None, strict: bool | None = None, no_change_timeout: int | None = None, hard_timeout:
        float | None = None, preserve_symlinks: bool | None = None, truncate: bool | None = None, env: Mapping[str, Any]
        | None = None, create: bool | None = None, on_busy: str | None = None
    ) -> Result:
        """Runs a command in a named shell on a terminal; directory and variables stay. Returns when it ends or one of
        three clocks runs out.

        Parameters:
            id: the session; without it: a new one
            exec_dir: directory to go to first; absolute
            command: what bash executes
            async_mode: do not wait for it
            timeout: seconds to wait; then the answer is running, and it goes on
            strict: an exec_dir that does not exist is an error, else it is ignored
            no_change_timeout: seconds without output after which the answer is no_change_timeout; it goes on, until
            the session is used again
            hard_timeout: seconds after which it is ended
            preserve_symlinks: exec_dir keeps its symbolic links in $PWD
            truncate: at most 30000 characters of output
            env: variables for this command only
            create: make the session if there is none of that name
            on_busy: while another command runs: wait for it, or fail (queue, reject)

        Fields of the result: session_id, command, status, output, console, exit_code, working_dir, shell_exited,
        output_bytes.
        """
        return await self._call("shell:exec", {
            "id": id, "exec_dir": exec_dir, "command": command, "async_mode": async_mode, "timeout": timeout, "strict":
            strict, "no_change_timeout": no_change_timeout, "hard_timeout": hard_timeout, "preserve_symlinks":
            preserve_symlinks, "truncate": truncate, "env": env, "create": create, "on_busy": on_busy
        })

    async def view(self, id: str) -> Result:
        """What was run in a shell, and what came of it.

        Parameters:
            id: the session

        Fields of the result: output, session_id, console, status, command, exit_code, working_dir.
        """
        return await self._call("shell:view", {"id": id})

    async def wait(self, id: str, seconds: int | None = None, *, max_wait_seconds: int | None = None) -> Result:
        """Waits until the last command of a shell ends.

        Parameters:
            id: the session
            seconds: at most
            max_wait_seconds: the same

        Fields of the result: status, exit_code.
        """
        return await self._call("shell:wait", {"id": id, "seconds": seconds, "max_wait_seconds": max_wait_seconds})

    async def type(self, id: str, input: str, press_enter: bool, *, eof: bool | None = None) -> Result:
        """Gives input to the program in front.

        Parameters:
            id: the session
            input: as typed on a keyboard
            press_enter: then the Enter key
            eof: then the end of the input (control-D)

        Fields of the result: status, exit_code.
        """
        return await self._call("shell:type", {"id": id, "input": input, "press_enter": press_enter, "eof": eof})

    async def terminate(self, id: str) -> Result:
        """Ends the command that a shell runs, with its children.

        Parameters:
            id: the session

        Fields of the result: status, exit_code, returncode.
        """
        return await self._call("shell:terminate", {"id": id})

    async def open(
        self, id: str | None = None, exec_dir: str | None = None, *, no_change_timeout: int | None = None,
        preserve_symlinks: bool | None = None
    ) -> Result:
        """Makes a named shell, or returns the one of that name.

        Parameters:
            id: its name; one that exists is returned as it is
            exec_dir: directory in which it begins
            no_change_timeout: for commands that do not say; 0: never; 120 if absent
            preserve_symlinks: exec_dir keeps its symbolic links in $PWD

        Fields of the result: session_id, working_dir.
        """
        return await self._call("shell:open", {
            "id": id, "exec_dir": exec_dir, "no_change_timeout": no_change_timeout, "preserve_symlinks":
            preserve_symlinks
        })

    async def update(self, id: str, no_change_timeout: int | None = None) -> Result:
        """Sets how long commands of a shell may be silent.

        Parameters:
            id: the session
            no_change_timeout: seconds; 0: never

        Fields of the result: session_id, no_change_timeout.
        """
        return await self._call("shell:update", {"id": id, "no_change_timeout": no_change_timeout})

    async def sessions(self) -> Result:
        """The named shells of the box.

        Fields of the result: sessions, active, max.
        """
        return await self._call("shell:sessions", {})

    async def close(self, id: str | None = None) -> Result:
        """Ends a shell and all that runs in it; without a name, all shells.

        Parameters:
            id: the session; absent: all

        Fields of the result: closed.
        """
        return await self._call("shell:close", {"id": id})


class AsyncCommandTools(AsyncNamespace):
    """Tools `command:*`."""

    async def launch(
        self, command: str, session_id: str | None = None, *, exec_dir: str | None = None, env: Mapping[str, Any] | None
        = None, async_mode: bool | None = None, timeout: float | None = None, hard_timeout: float | None = None,
        max_output_length: int | None = None
    ) -> Result:
        """Runs a command in a bash of its own, with separate stdout and stderr, and waits for it if asked.

        Parameters:
            session_id: the session; one that does not exist is made
            command: what bash executes
            exec_dir: directory, also of later commands of the session
            env: variables for this command
            async_mode: do not wait for it
            timeout: seconds to wait; then the answer is running, and it goes on
            hard_timeout: seconds after which it is killed
            max_output_length: characters of each stream in the answer; 0: no limit of its own

        Fields of the result: session_id, command_id, command, status, stdout, stderr, exit_code, offset,
        stderr_offset.
        """
        return await self._call("command:launch", {
            "session_id": session_id, "command": command, "exec_dir": exec_dir, "env": env, "async_mode": async_mode,
            "timeout": timeout, "hard_timeout": hard_timeout, "max_output_length": max_output_length
        })

    async def follow(
        self, session_id: str, command_id: str | None = None, *, offset: int | None = None, stderr_offset: int | None =
        None, wait: bool | None = None, wait_timeout: float | None = None
    ) -> Result:
        """Returns output from an offset on, and how the command stands.

        Parameters:
            session_id: the session
            command_id: absent: the newest
            offset: of stdout
            stderr_offset: of stderr
            wait: until there is something new
            wait_timeout: at most so many seconds

        Fields of the result: session_id, stdout, stderr, offset, stderr_offset, command.
        """
        return await self._call("command:follow", {
            "session_id": session_id, "command_id": command_id, "offset": offset, "stderr_offset": stderr_offset,
            "wait": wait, "wait_timeout": wait_timeout
        })

    async def feed(
        self, session_id: str, input: str, *, command_id: str | None = None, eof: bool | None = None
    ) -> Result:
        """Writes to the command's stdin, and ends it if asked.

        Parameters:
            session_id: the session
            command_id: absent: the newest
            input: what it reads next
            eof: then end its input

        Fields of the result: command_id, command, status, exit_code.
        """
        return await self._call("command:feed", {
            "session_id": session_id, "command_id": command_id, "input": input, "eof": eof
        })

    async def signal(self, session_id: str, command_id: str | None = None, *, signal: str | None = None) -> Result:
        """Sends a signal to the command and its children.

        Parameters:
            session_id: the session
            command_id: absent: the newest
            signal: SIGTERM, SIGKILL or SIGINT (SIGTERM, SIGKILL, SIGINT)

        Fields of the result: command_id, command, status, exit_code.
        """
        return await self._call("command:signal", {
            "session_id": session_id, "command_id": command_id, "signal": signal
        })

    async def begin(
        self, session_id: str | None = None, exec_dir: str | None = None, *, snapshot_path: str | None = None
    ) -> Result:
        """A session is where commands begin, and what is sourced before them.

        Parameters:
            session_id: its name; one that exists is returned as it is
            exec_dir: where commands begin
            snapshot_path: a file that bash sources before each command

        Fields of the result: session_id, status, working_dir, created_at, last_used_at, current_command,
        command_count.
        """
        return await self._call("command:begin", {
            "session_id": session_id, "exec_dir": exec_dir, "snapshot_path": snapshot_path
        })

    async def end(self, session_id: str) -> Result:
        """Kills what runs in it.

        Parameters:
            session_id: the session

        Fields of the result: session_id, status, working_dir, created_at, last_used_at, current_command,
        command_count.
        """
        return await self._call("command:end", {"session_id": session_id})

    async def sessions(self) -> Result:
        """All that there are.

        Fields of the result: sessions.
        """
        return await self._call("command:sessions", {})


class AsyncSystemTools(AsyncNamespace):
    """Tools `system:*`."""

    async def context(self) -> Result:
        """System, user, open ports, and the versions of common programs.

        Fields of the result: os, os_version, arch, user, home, workspace, timezone, sudo, ports, runtimes.
        """
        return await self._call("system:context", {})

    async def packages(self, language: str) -> Result:
        """Packages of Python or Node.js.

        Parameters:
            language: whose packages (python, nodejs)

        Fields of the result: packages, count.
        """
        return await self._call("system:packages", {"language": language})

    async def usage(self, top_rows: int | None = None) -> Result:
        """How full the disks are, and the largest processes.

        Parameters:
            top_rows: processes, by memory

        Fields of the result: disks, processes, process_count.
        """
        return await self._call("system:usage", {"top_rows": top_rows})

    async def hook(
        self, name: str, command: str, *, event: str | None = None, timeout: float | None = None, priority: int | None =
        None
    ) -> Result:
        """Registers a command that runs before the box is destroyed.

        Parameters:
            name: letters, digits, _ and -
            event: when (shutdown)
            command: what bash executes
            timeout: seconds
            priority: lower ones first; the same at once

        Fields of the result: name, event, command, timeout, priority, source.
        """
        return await self._call("system:hook", {
            "name": name, "event": event, "command": command, "timeout": timeout, "priority": priority
        })

    async def hooks(self) -> Result:
        """Commands that run before the box is destroyed.

        Fields of the result: hooks.
        """
        return await self._call("system:hooks", {})

    async def unhook(self, name: str) -> Result:
        """It does not run any more.

        Parameters:
            name: of the hook

        Fields of the result: name, event, command, timeout, priority, source.
        """
        return await self._call("system:unhook", {"name": name})


class AsyncWatchTools(AsyncNamespace):
    """Tools `watch:*`."""

    async def create(
        self, path: str, recursive: bool | None = None, *, exclude: Sequence[str] | None = None, debounce: int | None =
        None, include_patterns: Sequence[str] | None = None
    ) -> Result:
        """Begins to note what happens to a file or below a directory.

        Parameters:
            path: file or directory; absolute
            recursive: also directories below it
            exclude: patterns of names to leave out; default: .git, node_modules and their kin
            debounce: milliseconds in which writes to one file are one event
            include_patterns: only files that match; default: all

        Fields of the result: watcher_id, path, recursive, reused, lost, initial_cursor, subscribers, created_at,
        warning.
        """
        return await self._call("watch:create", {
            "path": path, "recursive": recursive, "exclude": exclude, "debounce": debounce, "include_patterns":
            include_patterns
        })

    async def watchers(self) -> Result:
        """All that there are.

        Fields of the result: watchers, count.
        """
        return await self._call("watch:watchers", {})

    async def poll(
        self, watcher_id: str, cursor: int | None = None, *, limit: int | None = None, timeout: int | None = None
    ) -> Result:
        """Events of a watcher behind a cursor.

        Parameters:
            watcher_id: the watcher
            cursor: events behind this one
            limit: at most so many
            timeout: seconds to wait for one

        Fields of the result: watcher_id, events, cursor, overflow.
        """
        return await self._call("watch:poll", {
            "watcher_id": watcher_id, "cursor": cursor, "limit": limit, "timeout": timeout
        })

    async def await_(
        self, path: str, timeout: int | None = None, *, event_types: Sequence[str] | None = None
    ) -> Result:
        """Waits until something happens to one path.

        Parameters:
            path: exactly this one; absolute
            timeout: seconds
            event_types: which events; default: all

        Fields of the result: timed_out, events.
        """
        return await self._call("watch:await", {"path": path, "timeout": timeout, "event_types": event_types})

    async def stop(self, watcher_id: str) -> Result:
        """Ends a watcher, unless others use it too.

        Parameters:
            watcher_id: the watcher

        Fields of the result: watcher_id, path, recursive, reused, lost, initial_cursor, subscribers, created_at,
        warning.
        """
        return await self._call("watch:stop", {"watcher_id": watcher_id})


class AsyncUtilTools(AsyncNamespace):
    """Tools `util:*`."""

    async def convert(
        self, uri: str, page_range: Any | None = None, *, sheet_name: str | None = None, row_range: Any | None = None,
        slide_range: Any | None = None
    ) -> Result:
        """Turns HTML, PDF, DOCX, XLSX, PPTX, CSV, notebooks, images and text into Markdown.

        Parameters:
            uri: http, https, file or data URI, or a path
            page_range: of a PDF: [first, last]
            sheet_name: of a workbook
            row_range: of a sheet: [first, last]
            slide_range: of slides: [first, last]

        Fields of the result: markdown, kind.
        """
        return await self._call("util:convert", {
            "uri": uri, "page_range": page_range, "sheet_name": sheet_name, "row_range": row_range, "slide_range":
            slide_range
        })


class AsyncSkillsTools(AsyncNamespace):
    """Tools `skills:*`."""

    async def manage(
        self, action: str, path: str | None = None, *, name: str | None = None, names: str | None = None, archive: str |
        None = None
    ) -> Result:
        """Registers, lists, reads and removes skills: directories with a SKILL.md.

        Parameters:
            action: what to do (register, list, content, remove, clear)
            path: register: a directory, or where to unpack the archive
            name: of the skill
            names: list: only these, with commas
            archive: register: a zip

        Fields of the result: result.
        """
        return await self._call("skills:manage", {
            "action": action, "path": path, "name": name, "names": names, "archive": archive
        })


class AsyncProxyTools(AsyncNamespace):
    """Tools `proxy:*`."""

    async def manage(
        self, action: str, source: str | None = None, *, target: str | None = None, pattern: str | None = None, server:
        str | None = None, auth_cmd: str | None = None, url: str | None = None
    ) -> Result:
        """Maps names to ports of the box, leaves hosts alone, uses an upstream.

        Parameters:
            action: what to do (mappings, map, unmap, excludes, exclude, include, upstream, set_upstream,
            remove_upstream, health, diagnose)
            source: map: [proto://]host[:port][/path]; * in the host matches anything
            target: map: [host:]port[/path]; without a host it is a port of the box
            pattern: exclude: a domain or CIDR
            server: set_upstream: host:port or user:pass@host:port
            auth_cmd: set_upstream: a command that prints user:pass
            url: diagnose: which way does it go?

        Fields of the result: result, start.
        """
        return await self._call("proxy:manage", {
            "action": action, "source": source, "target": target, "pattern": pattern, "server": server, "auth_cmd":
            auth_cmd, "url": url
        })


class AsyncKnowlyrTools(AsyncNamespace):
    """Tools `knowlyr:*`."""

    async def file_read(
        self, path: str, start_line: int | None = None, *, end_line: int | None = None, work_dir: str | None = None
    ) -> Result:
        """Reads a file, or some of its lines.

        Parameters:
            path: file
            start_line: first line, from 1; 0: from the beginning
            end_line: last line, which is included; 0: to the end
            work_dir: where relative paths begin; default: the box's work directory, /workspace

        Fields of the result: output, exit_code, error, success.
        """
        return await self._call("knowlyr:file_read", {
            "path": path, "start_line": start_line, "end_line": end_line, "work_dir": work_dir
        })

    async def file_write(
        self, path: str, content: str, *, create_dirs: bool | None = None, work_dir: str | None = None
    ) -> Result:
        """Writes a file and makes missing directories.

        Parameters:
            path: file
            content: its whole content
            create_dirs: make missing directories
            work_dir: where relative paths begin; default: the box's work directory, /workspace

        Fields of the result: output, exit_code, error, success.
        """
        return await self._call("knowlyr:file_write", {
            "path": path, "content": content, "create_dirs": create_dirs, "work_dir": work_dir
        })

    async def shell(
        self, command: str, timeout: float | None = None, *, env: Mapping[str, Any] | None = None, work_dir: str | None
        = None
    ) -> Result:
        """Runs a command in a fresh bash in the work directory. Nothing that it starts outlives the call; files do.

        Parameters:
            command: what a fresh bash executes
            timeout: seconds after which it is ended, with all that it started; default: the box's
            env: more variables, beside the box's
            work_dir: where relative paths begin; default: the box's work directory, /workspace

        Fields of the result: output, exit_code, error, success.
        """
        return await self._call("knowlyr:shell", {
            "command": command, "timeout": timeout, "env": env, "work_dir": work_dir
        })

    async def search(
        self, pattern: str, path: str | None = None, *, file_pattern: str | None = None, work_dir: str | None = None
    ) -> Result:
        """Returns the lines that match as file:line:text, sorted by file.

        Parameters:
            pattern: regular expression as grep knows it
            path: file or directory
            file_pattern: only files whose name matches, such as *.py
            work_dir: where relative paths begin; default: the box's work directory, /workspace

        Fields of the result: output, exit_code, error, success.
        """
        return await self._call("knowlyr:search", {
            "pattern": pattern, "path": path, "file_pattern": file_pattern, "work_dir": work_dir
        })

    async def git(
        self, subcommand: str, args: str | None = None, *, timeout: float | None = None, env: Mapping[str, Any] | None =
        None, work_dir: str | None = None
    ) -> Result:
        """Runs git in the work directory: diff, log, status and all the others.

        Parameters:
            subcommand: such as diff, log, status
            args: its arguments; quotes and backslashes group words as in a shell, and nothing is expanded
            timeout: seconds after which it is ended, with all that it started; default: the box's
            env: more variables, beside the box's
            work_dir: where relative paths begin; default: the box's work directory, /workspace

        Fields of the result: output, exit_code, error, success.
        """
        return await self._call("knowlyr:git", {
            "subcommand": subcommand, "args": args, "timeout": timeout, "env": env, "work_dir": work_dir
        })

    async def run_tests(
        self, test_command: str | None = None, timeout: float | None = None, *, env: Mapping[str, Any] | None = None,
        work_dir: str | None = None
    ) -> Result:
        """Runs the test command that the box was made with.

        Parameters:
            test_command: what a fresh bash executes; default: the box's test command
            timeout: seconds after which it is ended, with all that it started; default: the box's
            env: more variables, beside the box's
            work_dir: where relative paths begin; default: the box's work directory, /workspace

        Fields of the result: output, exit_code, error, success.
        """
        return await self._call("knowlyr:run_tests", {
            "test_command": test_command, "timeout": timeout, "env": env, "work_dir": work_dir
        })


class AsyncBoxTools(AsyncNamespace):
    """Tools `box:*`."""

    async def snapshot(self, name: str | None = None, box: str | None = None) -> Result:
        """Keeps all files of the box as they are now, as a state that can be returned to.

        Parameters:
            name: a name for the state
            box: id of the box; default: the one the call is made in, or the worker's

        Fields of the result: state, box, tenant, time, image, name, parent, trajectory, step, root, layers, entries,
        bytes, changed, frozen_us, fidelity, sessions, quarantined.
        """
        return await self._call("box:snapshot", {"name": name, "box": box})

    async def restore(
        self, state: str | None = None, step: int | None = None, *, trajectory: str | None = None, box: str | None =
        None
    ) -> Result:
        """Puts the box back into a recorded state. Its programs end and later files are gone; take a snapshot first to
        come back to them.

        Parameters:
            state: a recorded state, by id or name
            step: instead: the state after this step
            trajectory: whose step; default: the box's own trajectory
            box: id of the box; default: the one the call is made in, or the worker's

        Fields of the result: restored, root, proved, fidelity, sessions.
        """
        return await self._call("box:restore", {"state": state, "step": step, "trajectory": trajectory, "box": box})

    async def reset(
        self, state: str | None = None, step: int | None = None, *, trajectory: str | None = None, box: str | None =
        None
    ) -> Result:
        """Puts the box back to its bare image, or to a state; the files are first proved by their hash. If they are not
        what they were, the box is quarantined.

        Parameters:
            state: a recorded state, by id or name
            step: instead: the state after this step
            trajectory: whose step; default: the box's own trajectory
            box: id of the box; default: the one the call is made in, or the worker's

        Fields of the result: restored, root, proved, fidelity, sessions.
        """
        return await self._call("box:reset", {"state": state, "step": step, "trajectory": trajectory, "box": box})

    async def fork(
        self, n: int | None = None, state: str | None = None, *, step: int | None = None, trajectory: str | None = None,
        box: str | None = None
    ) -> Result:
        """Makes more boxes that begin as this one is now, or as it was in a state or after a step.

        Parameters:
            n: how many copies
            state: a recorded state, by id or name
            step: instead: the state after this step
            trajectory: whose step; default: the box's own trajectory
            box: id of the box; default: the one the call is made in, or the worker's

        Fields of the result: state, fidelity, sessions, proved, boxes, requested, made.
        """
        return await self._call("box:fork", {
            "n": n, "state": state, "step": step, "trajectory": trajectory, "box": box
        })

    async def diff(self, a: str, b: str | None = None, *, text: bool | None = None, box: str | None = None) -> Result:
        """Which files differ between two states, or between a state and now.

        Parameters:
            a: the older state, by id or name
            b: the newer state; default: the box as it is now
            text: show the lines that differ in text files
            box: id of the box; default: the one the call is made in, or the worker's

        Fields of the result: a, b, added, changed, removed, truncated, rows.
        """
        return await self._call("box:diff", {"a": a, "b": b, "text": text, "box": box})

    async def checkout(self, state: str) -> Result:
        """The files of a state that differ from the image, and where to get them.

        Parameters:
            state: a recorded state, by id or name

        Fields of the result: state, url, added, changed, removed, truncated, rows.
        """
        return await self._call("box:checkout", {"state": state})

    async def states(
        self, box: str | None = None, trajectory: str | None = None, *, after: int | None = None, limit: int | None =
        None
    ) -> Result:
        """The recorded states, newest first.

        Parameters:
            box: id of the box; default: the one the call is made in, or the worker's
            trajectory: only those of this trajectory
            after: the next_after of the list before
            limit: how many at most

        Fields of the result: states, next.
        """
        return await self._call("box:states", {"box": box, "trajectory": trajectory, "after": after, "limit": limit})


class AsyncTrajectoryTools(AsyncNamespace):
    """Tools `trajectory:*`."""

    async def replay(
        self, trajectory: str | None = None, on: str | None = None, *, min_match: float | None = None, once: bool | None
        = None
    ) -> Result:
        """Runs a recorded trajectory again and says at which step it goes differently, and why.

        Parameters:
            trajectory: id of the trajectory; default: the one that this call belongs to
            on: in this box as it is; default: fresh boxes like the recorded ones
            min_match: how much must match for `verified`
            once: do not run steps again that differ

        Fields of the result: report.
        """
        return await self._call("trajectory:replay", {
            "trajectory": trajectory, "on": on, "min_match": min_match, "once": once
        })

    async def export(
        self, format: str, trajectory: str | None = None, *, outcome: str | None = None, tool: str | None = None,
        trainable: bool | None = None, bare: bool | None = None, max_bytes: int | None = None
    ) -> Result:
        """A recorded trajectory as text in a format that other programs read.

        Parameters:
            trajectory: id of the trajectory; default: the one that this call belongs to
            format: atif, openai, sharegpt, agentflow, knowlyr, swe-agent, sandglass ...
            outcome: only steps that ended so
            tool: only steps of this tool
            trainable: only steps that a learner may take as the agent's own
            bare: without what really happened in metadata and extra
            max_bytes: longer texts are refused

        Fields of the result: format, text, bytes.
        """
        return await self._call("trajectory:export", {
            "trajectory": trajectory, "format": format, "outcome": outcome, "tool": tool, "trainable": trainable,
            "bare": bare, "max_bytes": max_bytes
        })

    async def annotate(
        self, trajectory: str | None = None, step: int | None = None, *, tags: Any | None = None, metadata: Any | None =
        None, note: str | None = None
    ) -> Result:
        """Adds tags, metadata or a note to a trajectory or one of its steps.

        Parameters:
            trajectory: id of the trajectory; default: the one that this call belongs to
            step: of this step; default: of the whole
            tags: a list of texts, instead of those before
            metadata: an object that is merged into its metadata
            note: in words

        Fields of the result: trajectory, annotations.
        """
        return await self._call("trajectory:annotate", {
            "trajectory": trajectory, "step": step, "tags": tags, "metadata": metadata, "note": note
        })


class AsyncBrowserTools(AsyncNamespace):
    """Tools `browser:*`."""

    async def goto(
        self, url: str, wait_until: str | None = None, *, timeout: float | None = None, width: int | None = None,
        height: int | None = None
    ) -> Result:
        """Opens a URL in the current tab and waits until it is loaded.

        Parameters:
            url: where to go
            wait_until: what to wait for (load, domcontentloaded, networkidle, commit)
            timeout: seconds
            width: of the viewport, if the browser starts now
            height: the same

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status.
        """
        return await self._call("browser:goto", {
            "url": url, "wait_until": wait_until, "timeout": timeout, "width": width, "height": height
        })

    async def back(self, wait_until: str | None = None, timeout: float | None = None) -> Result:
        """Goes back in the tab's history.

        Parameters:
            wait_until: what to wait for (load, domcontentloaded, networkidle, commit)
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status.
        """
        return await self._call("browser:back", {"wait_until": wait_until, "timeout": timeout})

    async def forward(self, wait_until: str | None = None, timeout: float | None = None) -> Result:
        """Goes forward in the tab's history.

        Parameters:
            wait_until: what to wait for (load, domcontentloaded, networkidle, commit)
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status.
        """
        return await self._call("browser:forward", {"wait_until": wait_until, "timeout": timeout})

    async def reload(self, wait_until: str | None = None, timeout: float | None = None) -> Result:
        """Loads the page again.

        Parameters:
            wait_until: what to wait for (load, domcontentloaded, networkidle, commit)
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status.
        """
        return await self._call("browser:reload", {"wait_until": wait_until, "timeout": timeout})

    async def screenshot(
        self, full_page: bool | None = None, format: str | None = None, *, quality: int | None = None, selector: str |
        None = None, timeout: float | None = None
    ) -> Result:
        """A picture of the page, the whole page, or an element.

        Parameters:
            full_page: the whole page, not only what is in view
            format: of the picture (png, jpeg, webp)
            quality: of jpeg and webp
            selector: only this element
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, image, mime_type, width,
        height.
        """
        return await self._call("browser:screenshot", {
            "full_page": full_page, "format": format, "quality": quality, "selector": selector, "timeout": timeout
        })

    async def snapshot(self, max: int | None = None) -> Result:
        """What is on the page, as roles and names, with references that other browser tools accept.

        Parameters:
            max: lines at most

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, snapshot, truncated.
        """
        return await self._call("browser:snapshot", {"max": max})

    async def elements(self) -> Result:
        """What can be clicked or filled, with indexes and places.

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, elements, count.
        """
        return await self._call("browser:elements", {})

    async def click(
        self, selector: str | None = None, ref: str | None = None, *, index: int | None = None, x: float | None = None,
        y: float | None = None, button: str | None = None, click_count: int | None = None, timeout: float | None = None
    ) -> Result:
        """Clicks an element, or a point.

        Parameters:
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            x: or: a point of the viewport
            y: its other coordinate
            button: which (left, right, middle)
            click_count: 2: a double click
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element.
        """
        return await self._call("browser:click", {
            "selector": selector, "ref": ref, "index": index, "x": x, "y": y, "button": button, "click_count":
            click_count, "timeout": timeout
        })

    async def hover(
        self, selector: str | None = None, ref: str | None = None, *, index: int | None = None, x: float | None = None,
        y: float | None = None, timeout: float | None = None
    ) -> Result:
        """Moves the mouse over an element, or to a point.

        Parameters:
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            x: or: a point of the viewport
            y: its other coordinate
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element.
        """
        return await self._call("browser:hover", {
            "selector": selector, "ref": ref, "index": index, "x": x, "y": y, "timeout": timeout
        })

    async def type(
        self, text: str, selector: str | None = None, *, ref: str | None = None, index: int | None = None, clear: bool |
        None = None, press_enter: bool | None = None, keystrokes: bool | None = None, delay: float | None = None,
        timeout: float | None = None
    ) -> Result:
        """Types text into an element, or where the cursor is.

        Parameters:
            text: what to type
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            clear: empty the field first
            press_enter: and then the Enter key
            keystrokes: each character by itself, as keys; else as if pasted
            delay: seconds between keystrokes
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element.
        """
        return await self._call("browser:type", {
            "text": text, "selector": selector, "ref": ref, "index": index, "clear": clear, "press_enter": press_enter,
            "keystrokes": keystrokes, "delay": delay, "timeout": timeout
        })

    async def press(
        self, key: str, selector: str | None = None, *, ref: str | None = None, index: int | None = None, timeout: float
        | None = None
    ) -> Result:
        """Presses a key, with modifiers if wanted.

        Parameters:
            key: such as Enter, Tab, a, Control+a, Shift+ArrowLeft
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element.
        """
        return await self._call("browser:press", {
            "key": key, "selector": selector, "ref": ref, "index": index, "timeout": timeout
        })

    async def scroll(
        self, direction: str | None = None, amount: int | None = None, *, x: float | None = None, y: float | None =
        None, selector: str | None = None, ref: str | None = None, index: int | None = None, timeout: float | None =
        None
    ) -> Result:
        """Scrolls the page or an element.

        Parameters:
            direction: where to; view: until the element is in view; point: to x and y (down, up, left, right, top,
            bottom, point, view)
            amount: pixels
            x: point: from the left
            y: point: from the top
            selector: in this element; view: which
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, x, y, height.
        """
        return await self._call("browser:scroll", {
            "direction": direction, "amount": amount, "x": x, "y": y, "selector": selector, "ref": ref, "index": index,
            "timeout": timeout
        })

    async def select(
        self, selector: str | None = None, ref: str | None = None, *, index: int | None = None, values: Sequence[str] |
        None = None, option: int | None = None, timeout: float | None = None
    ) -> Result:
        """Chooses options of a list.

        Parameters:
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            values: values or labels of the options
            option: or: number of the option
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element, selected.
        """
        return await self._call("browser:select", {
            "selector": selector, "ref": ref, "index": index, "values": values, "option": option, "timeout": timeout
        })

    async def upload(
        self, files: Sequence[str], selector: str | None = None, *, ref: str | None = None, index: int | None = None,
        timeout: float | None = None
    ) -> Result:
        """Fills a file field with files of the box.

        Parameters:
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            files: paths in the box
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element.
        """
        return await self._call("browser:upload", {
            "selector": selector, "ref": ref, "index": index, "files": files, "timeout": timeout
        })

    async def evaluate(self, expression: str, timeout: float | None = None) -> Result:
        """Runs JavaScript in the page and returns its value.

        Parameters:
            expression: JavaScript; the value of the last expression is the result, a promise is awaited
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, value, type.
        """
        return await self._call("browser:evaluate", {"expression": expression, "timeout": timeout})

    async def extract(
        self, selector: str | None = None, what: str | None = None, *, attribute: str | None = None, outer: bool | None
        = None, timeout: float | None = None
    ) -> Result:
        """Text, HTML, links or a value of the page or an element.

        Parameters:
            selector: of this element; default: the page
            what: what of it (text, html, links, value, attribute)
            attribute: its name
            outer: html: with the element itself
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, content, text, html, links.
        """
        return await self._call("browser:extract", {
            "selector": selector, "what": what, "attribute": attribute, "outer": outer, "timeout": timeout
        })

    async def wait(
        self, type: str | None = None, selector: str | None = None, *, state: str | None = None, pattern: str | None =
        None, expression: str | None = None, polling: float | None = None, path: str | None = None, timeout: float |
        None = None
    ) -> Result:
        """Waits until something is so in the page.

        Parameters:
            type: for what (selector, load, networkidle, url, function, request, response, download, timeout)
            selector: selector: the element
            state: selector: how it is to be (visible, attached, hidden, detached)
            pattern: url, request, response: a part of the URL, or a glob
            expression: function: JavaScript that is to become true
            polling: selector, url, function: seconds between looks, if nothing tells of a change
            path: download: copy it to this file
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, found, request, path.
        """
        return await self._call("browser:wait", {
            "type": type, "selector": selector, "state": state, "pattern": pattern, "expression": expression, "polling":
            polling, "path": path, "timeout": timeout
        })

    async def tabs(
        self, action: str | None = None, url: str | None = None, *, index: int | None = None, timeout: float | None =
        None
    ) -> Result:
        """Lists, opens, switches and closes tabs.

        Parameters:
            action: what to do (list, new, switch, close)
            url: new: where to go
            index: switch, close: which; close: default is the one at hand
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, tabs.
        """
        return await self._call("browser:tabs", {"action": action, "url": url, "index": index, "timeout": timeout})

    async def console(self, clear: bool | None = None, path: str | None = None) -> Result:
        """What the page wrote to its console.

        Parameters:
            clear: forget them
            path: write them into this file of the box, too

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, messages, path.
        """
        return await self._call("browser:console", {"clear": clear, "path": path})

    async def dialog(self, accept: bool, text: str | None = None) -> Result:
        """Says how confirm and prompt dialogs are answered from now on.

        Parameters:
            accept: what confirm and prompt get from now on; an alert is always accepted
            text: what a prompt gets

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status.
        """
        return await self._call("browser:dialog", {"accept": accept, "text": text})

    async def check(
        self, selector: str | None = None, ref: str | None = None, *, index: int | None = None, checked: bool | None =
        None, timeout: float | None = None
    ) -> Result:
        """Marks a checkbox or radio button, or takes the mark away.

        Parameters:
            selector: CSS selector, text=..., or xpath=...
            ref: or: a reference from browser:snapshot
            index: or: an index from browser:elements
            checked: false: take the mark away
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, element, checked.
        """
        return await self._call("browser:check", {
            "selector": selector, "ref": ref, "index": index, "checked": checked, "timeout": timeout
        })

    async def fill(self, items: Any, timeout: float | None = None) -> Result:
        """Fills several fields: texts, checkboxes, options, files.

        Parameters:
            items: a list of fields, each with selector, ref or index, and one of text, checked, values or files;
            value does for any of them
            timeout: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, count.
        """
        return await self._call("browser:fill", {"items": items, "timeout": timeout})

    async def find(self, text: str) -> Result:
        """Where a text is on the page.

        Parameters:
            text: what to look for, in any case

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, found, count.
        """
        return await self._call("browser:find", {"text": text})

    async def markdown(self, selector: str | None = None) -> Result:
        """The main part of the page, or an element, as Markdown.

        Parameters:
            selector: of this element; default: the main part of the page

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, markdown.
        """
        return await self._call("browser:markdown", {"selector": selector})

    async def captcha(self, timeout: float | None = None, polling: float | None = None) -> Result:
        """Tests on the page that tell people from programs.

        Parameters:
            timeout: wait so many seconds until none is left unsolved, or a person says so on the desktop's page
            polling: seconds between two looks

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, detected, checked, captchas,
        count.
        """
        return await self._call("browser:captcha", {"timeout": timeout, "polling": polling})

    async def cookies(
        self, action: str | None = None, urls: Sequence[str] | None = None, *, cookies: Any | None = None
    ) -> Result:
        """Tells, sets or clears the browser's cookies.

        Parameters:
            action: what to do (get, set, clear)
            urls: get: only those that are sent to one of these
            cookies: set: a list of objects with name, value, and url or domain (else the page's own), path, expires,
            httpOnly, secure, sameSite

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, cookies, count.
        """
        return await self._call("browser:cookies", {"action": action, "urls": urls, "cookies": cookies})

    async def state(self, action: str, path: str) -> Result:
        """Saves cookies and storage of pages to a file, or loads them.

        Parameters:
            action: what to do (save, load)
            path: of the file in the box

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, path, count, origins.
        """
        return await self._call("browser:state", {"action": action, "path": path})

    async def requests(
        self, filter: str | None = None, limit: int | None = None, *, clear: bool | None = None
    ) -> Result:
        """What the browser's tabs asked for, and what they got.

        Parameters:
            filter: only those whose URL has this in it or fits this glob, or of this method or type
            limit: the newest of them
            clear: forget all of them afterwards

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, requests.
        """
        return await self._call("browser:requests", {"filter": filter, "limit": limit, "clear": clear})

    async def route(
        self, action: str | None = None, pattern: str | None = None, *, body: str | None = None, status: int | None =
        None, headers: Mapping[str, Any] | None = None, content_type: str | None = None, abort: bool | None = None
    ) -> Result:
        """Answers requests in place of the network, or has them fail.

        Parameters:
            action: what to do (add, remove, clear)
            pattern: glob of the URL: * is anything but a slash, ** anything, {a,b} one of these
            body: add: what is answered
            status: add: with this status
            headers: add: and these headers
            content_type: add: and this type
            abort: add: the request fails instead

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, count.
        """
        return await self._call("browser:route", {
            "action": action, "pattern": pattern, "body": body, "status": status, "headers": headers, "content_type":
            content_type, "abort": abort
        })

    async def headers(self, headers: Mapping[str, Any], origin: str | None = None) -> Result:
        """Headers that are sent with all requests, or with those to an origin.

        Parameters:
            headers: sent with each request from now on, in place of those before; none: as it was
            origin: only to this origin, such as https://example.org

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung.
        """
        return await self._call("browser:headers", {"headers": headers, "origin": origin})

    async def har(self, path: str | None = None, bodies: bool | None = None) -> Result:
        """The record of requests as an HTTP archive (HAR 1.2).

        Parameters:
            path: write it into this file of the box; else it is the result
            bodies: with what was answered, as far as the browser has it

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, har, path, count.
        """
        return await self._call("browser:har", {"path": path, "bodies": bodies})

    async def downloads(self) -> Result:
        """Files that the browser fetched, or is fetching.

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, files.
        """
        return await self._call("browser:downloads", {})

    async def record(
        self, action: str | None = None, path: str | None = None, *, duration: float | None = None, fps: int | None =
        None, quality: int | None = None
    ) -> Result:
        """Makes a video of the tab: for a time, or from start to stop.

        Parameters:
            action: once: for so long, and then the file is there (once, start, pause, resume, stop, status)
            path: once, stop: the file, .mp4 or .webm; default: one in /tmp/recordings
            duration: once: seconds
            fps: pictures a second
            quality: of each of them

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status, path, duration, count,
        size.
        """
        return await self._call("browser:record", {
            "action": action, "path": path, "duration": duration, "fps": fps, "quality": quality
        })

    async def restart(
        self, mode: str | None = None, url_blocklist: Sequence[str] | None = None, *, url_allowlist: Sequence[str] |
        None = None, locale: str | None = None, allow_file_selection_dialogs: bool | None = None, display: str | None =
        None
    ) -> Result:
        """A new browser, or the same one without routes and headers.

        Parameters:
            mode: soft: the browser stays, but routes, headers and the record of requests go (soft, hard)
            url_blocklist: sites whose pages are refused: [scheme://]host[:port][/path], or *
            url_allowlist: but not these
            locale: such as de-DE; for hard
            allow_file_selection_dialogs: false: pages cannot open them
            display: for hard: with a window on the box's desktop or without; default: as it was (headed, headless)

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, status.
        """
        return await self._call("browser:restart", {
            "mode": mode, "url_blocklist": url_blocklist, "url_allowlist": url_allowlist, "locale": locale,
            "allow_file_selection_dialogs": allow_file_selection_dialogs, "display": display
        })

    async def act(
        self, action: str, x: float | None = None, *, y: float | None = None, dx: float | None = None, dy: float | None
        = None, button: str | None = None, click_count: int | None = None, text: str | None = None, keystrokes: bool |
        None = None, key: str | None = None, keys: Sequence[str] | None = None, duration: float | None = None
    ) -> Result:
        """Moves and presses the mouse or keys, at points of the viewport.

        Parameters:
            action: what to do (move_to, move_rel, click, mouse_down, mouse_up, right_click, double_click, drag_to,
            drag_rel, scroll, typing, press, key_down, key_up, hotkey, wait)
            x: move_to, drag_to, clicks: where; default of clicks: where the mouse is
            y: its other coordinate
            dx: move_rel, drag_rel: by so much; scroll: pixels to the right
            dy: the same, downwards
            button: click, mouse_down, mouse_up: which (left, right, middle)
            click_count: click: how often
            text: typing: what
            keystrokes: typing: each character by itself, as keys; else as if pasted
            key: press, key_down, key_up: such as enter, ctrl, a
            keys: hotkey: held together, in this order
            duration: wait: seconds

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, x, y.
        """
        return await self._call("browser:act", {
            "action": action, "x": x, "y": y, "dx": dx, "dy": dy, "button": button, "click_count": click_count, "text":
            text, "keystrokes": keystrokes, "key": key, "keys": keys, "duration": duration
        })

    async def viewport(self, width: int, height: int) -> Result:
        """Sets the size of the viewport.

        Parameters:
            width: pixels
            height: pixels

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, width, height.
        """
        return await self._call("browser:viewport", {"width": width, "height": height})

    async def info(self) -> Result:
        """Version, viewport and page.

        Fields of the result: url, title, dialogs, downloads, restarted, crashed, hung, version, user_agent,
        sandboxed, sandbox_why, width, height, headed, screen_width, screen_height, cdp_path.
        """
        return await self._call("browser:info", {})


class AsyncAppTools(AsyncNamespace):
    """Tools `app:*`."""

    async def start(self, name: str, timeout: float | None = None) -> Result:
        """Starts VS Code (code-server) or Jupyter in the box, if it does not run, and waits until it answers.

        Parameters:
            name: which (code-server, jupyter)
            timeout: seconds

        Fields of the result: path, pid, started.
        """
        return await self._call("app:start", {"name": name, "timeout": timeout})

    async def stop(self, name: str) -> Result:
        """Ends it with all that it started.

        Parameters:
            name: which (code-server, jupyter)

        Fields of the result: stopped.
        """
        return await self._call("app:stop", {"name": name})


class AsyncDesktopTools(AsyncNamespace):
    """Tools `desktop:*`."""

    async def screenshot(self, accessibility: bool | None = None) -> Result:
        """A picture of the whole screen, with the pointer.

        Parameters:
            accessibility: with what programs tell of their windows; takes a while

        Fields of the result: image, mime_type, size, session, accessibility_tree, restarted.
        """
        return await self._call("desktop:screenshot", {"accessibility": accessibility})

    async def click(self, x: int, y: int, *, button: str | None = None) -> Result:
        """Clicks at a point of the screen.

        Parameters:
            x: pixels from the left
            y: pixels from the top
            button: which (left, right, middle)

        Fields of the result: clicked, button, accessibility_tree, restarted.
        """
        return await self._call("desktop:click", {"x": x, "y": y, "button": button})

    async def double_click(self, x: int, y: int) -> Result:
        """Clicks twice at a point of the screen.

        Parameters:
            x: pixels from the left
            y: pixels from the top

        Fields of the result: clicked, button, accessibility_tree, restarted.
        """
        return await self._call("desktop:double_click", {"x": x, "y": y})

    async def right_click(self, x: int | None = None, y: int | None = None) -> Result:
        """Clicks the right button at a point, or where the pointer is.

        Parameters:
            x: pixels from the left; with neither, where the pointer is
            y: pixels from the top

        Fields of the result: clicked, button, accessibility_tree, restarted.
        """
        return await self._call("desktop:right_click", {"x": x, "y": y})

    async def move(self, x: int, y: int) -> Result:
        """Moves the pointer to a point.

        Parameters:
            x: pixels from the left
            y: pixels from the top

        Fields of the result: position, accessibility_tree, restarted.
        """
        return await self._call("desktop:move", {"x": x, "y": y})

    async def drag(
        self, start_x: int, start_y: int, end_x: int, end_y: int, *, button: str | None = None, duration: float | None =
        None
    ) -> Result:
        """Presses at one point, moves, and lets go at another.

        Parameters:
            start_x: where to press
            start_y: where to press
            end_x: where to let go
            end_y: where to let go
            button: which (left, right, middle)
            duration: seconds on the way

        Fields of the result: from, to, accessibility_tree, restarted.
        """
        return await self._call("desktop:drag", {
            "start_x": start_x, "start_y": start_y, "end_x": end_x, "end_y": end_y, "button": button, "duration":
            duration
        })

    async def mouse_down(self, button: str | None = None) -> Result:
        """Presses a button of the mouse and holds it.

        Parameters:
            button: which (left, right, middle)

        Fields of the result: button, accessibility_tree, restarted.
        """
        return await self._call("desktop:mouse_down", {"button": button})

    async def mouse_up(self, button: str | None = None) -> Result:
        """Lets go of a button of the mouse.

        Parameters:
            button: which (left, right, middle)

        Fields of the result: button, accessibility_tree, restarted.
        """
        return await self._call("desktop:mouse_up", {"button": button})

    async def scroll(self, x: int, y: int, clicks: int, *, horizontal: bool | None = None) -> Result:
        """Turns the wheel at a point.

        Parameters:
            x: pixels from the left
            y: pixels from the top
            clicks: of the wheel; up is positive, down negative
            horizontal: right is positive, left negative

        Fields of the result: position, clicks, accessibility_tree, restarted.
        """
        return await self._call("desktop:scroll", {"x": x, "y": y, "clicks": clicks, "horizontal": horizontal})

    async def type(self, text: str, interval: float | None = None) -> Result:
        """Types text where the keyboard's focus is.

        Parameters:
            text: what to type, in any script; a line feed is the Enter key
            interval: seconds between keys

        Fields of the result: typed, length, accessibility_tree, restarted.
        """
        return await self._call("desktop:type", {"text": text, "interval": interval})

    async def key(self, key: str) -> Result:
        """Presses a key and lets it go.

        Parameters:
            key: such as enter, tab, esc, f5, ctrl, a, left, pageup

        Fields of the result: key, accessibility_tree, restarted.
        """
        return await self._call("desktop:key", {"key": key})

    async def key_down(self, key: str) -> Result:
        """Presses a key and holds it.

        Parameters:
            key: such as enter, tab, esc, f5, ctrl, a, left, pageup

        Fields of the result: key, accessibility_tree, restarted.
        """
        return await self._call("desktop:key_down", {"key": key})

    async def key_up(self, key: str) -> Result:
        """Lets go of a key.

        Parameters:
            key: such as enter, tab, esc, f5, ctrl, a, left, pageup

        Fields of the result: key, accessibility_tree, restarted.
        """
        return await self._call("desktop:key_up", {"key": key})

    async def hotkey(self, keys: Sequence[str]) -> Result:
        """Presses keys in order and lets them go in reverse: ctrl, c.

        Parameters:
            keys: pressed in this order, let go in reverse

        Fields of the result: keys, accessibility_tree, restarted.
        """
        return await self._call("desktop:hotkey", {"keys": keys})

    async def wait(self, seconds: float | None = None, title: str | None = None) -> Result:
        """Waits so long, or until a window is there.

        Parameters:
            seconds: how long; with a title: at most
            title: until a window is there whose title or program has this text

        Fields of the result: waited, found, accessibility_tree, restarted.
        """
        return await self._call("desktop:wait", {"seconds": seconds, "title": title})

    async def act(
        self, action: str, x: int | None = None, *, y: int | None = None, dx: float | None = None, dy: float | None =
        None, button: str | None = None, click_count: int | None = None, text: str | None = None, keystrokes: bool |
        None = None, key: str | None = None, keys: Sequence[str] | None = None, duration: float | None = None
    ) -> Result:
        """Moves and presses the mouse or keys, as AIO's browser actions name it.

        Parameters:
            action: what to do (move_to, move_rel, click, mouse_down, mouse_up, right_click, double_click, drag_to,
            drag_rel, scroll, typing, press, key_down, key_up, hotkey, wait)
            x: move_to, drag_to, clicks: where; default of clicks: where the pointer is
            y: its other coordinate
            dx: move_rel, drag_rel: by so much; scroll: pixels to the right, 100 to a click of the wheel
            dy: the same, downwards
            button: which (left, right, middle)
            click_count: click: how often
            text: typing: what
            keystrokes: typing: as keys; else pasted, by ctrl and v
            key: press, key_down, key_up
            keys: hotkey
            duration: wait: seconds

        Fields of the result: position, accessibility_tree, restarted.
        """
        return await self._call("desktop:act", {
            "action": action, "x": x, "y": y, "dx": dx, "dy": dy, "button": button, "click_count": click_count, "text":
            text, "keystrokes": keystrokes, "key": key, "keys": keys, "duration": duration
        })

    async def tree(self, max: int | None = None) -> Result:
        """Roles, names and places of what programs show, where they offer it (AT-SPI).

        Parameters:
            max: parts of windows at most

        Fields of the result: accessibility_tree, restarted.
        """
        return await self._call("desktop:tree", {"max": max})

    async def clipboard(self, action: str | None = None, text: str | None = None) -> Result:
        """What programs have copied, or are to paste.

        Parameters:
            action: what to do (get, set)
            text: set: what programs are to get from it

        Fields of the result: text, restarted.
        """
        return await self._call("desktop:clipboard", {"action": action, "text": text})

    async def windows(
        self, action: str | None = None, window: int | None = None, *, title: str | None = None
    ) -> Result:
        """Lists windows, brings one to the front, or closes it.

        Parameters:
            action: what to do (list, focus, close)
            window: focus, close: its id
            title: or: a part of its title or program

        Fields of the result: windows, restarted.
        """
        return await self._call("desktop:windows", {"action": action, "window": window, "title": title})

    async def screen(self, width: int | None = None, height: int | None = None, *, trees: str | None = None) -> Result:
        """Tells the size of the screen, or sets it.

        Parameters:
            width: set it; pixels
            height: set it; pixels
            trees: from now on answers have the accessibility tree, or have it no more (on, off)

        Fields of the result: width, height, restarted.
        """
        return await self._call("desktop:screen", {"width": width, "height": height, "trees": trees})

    async def launch(self, command: str) -> Result:
        """Starts a program on the screen. Look with desktop:wait or desktop:windows when its window is there.

        Parameters:
            command: a shell command; it goes on after the call

        Fields of the result: pid.
        """
        return await self._call("desktop:launch", {"command": command})

    async def record(
        self, action: str, save_path: str | None = None, *, fps: int | None = None, crf: int | None = None,
        max_duration: float | None = None, width: int | None = None, height: int | None = None
    ) -> Result:
        """Starts or stops a recording of the screen to a file of the box (H.264 in MP4).

        Parameters:
            action: what to do (start, stop, status)
            save_path: start: where to; default: /tmp/recordings/recording_{time}.mp4
            fps: start: pictures each second
            crf: start: quality of H.264; 0 is lossless, 51 worst
            max_duration: start: seconds after which it ends by itself
            width: start: of the film; default: of the screen
            height: start: of the film; default: of the screen

        Fields of the result: status, save_path, duration, file_size_bytes.
        """
        return await self._call("desktop:record", {
            "action": action, "save_path": save_path, "fps": fps, "crf": crf, "max_duration": max_duration, "width":
            width, "height": height
        })

    async def handover(self, message: str, timeout: float | None = None) -> Result:
        """Asks a person who looks at the screen to do something there, and waits until it is done or the time is over.

        Parameters:
            message: what the person is asked to do
            timeout: seconds to wait

        Fields of the result: done, note, waited.
        """
        return await self._call("desktop:handover", {"message": message, "timeout": timeout})


class AsyncVmTools(AsyncNamespace):
    """Tools `vm:*`."""

    async def screenshot(self, accessibility: bool | None = None) -> Result:
        """A picture of the whole screen, with the pointer.

        Parameters:
            accessibility: with what programs tell of their windows; takes a while

        Fields of the result: image, mime_type, size, session, accessibility_tree, restarted.
        """
        return await self._call("vm:screenshot", {"accessibility": accessibility})

    async def click(self, x: int, y: int, *, button: str | None = None) -> Result:
        """Clicks at a point of the screen.

        Parameters:
            x: pixels from the left
            y: pixels from the top
            button: which (left, right, middle)

        Fields of the result: clicked, button, accessibility_tree, restarted.
        """
        return await self._call("vm:click", {"x": x, "y": y, "button": button})

    async def double_click(self, x: int, y: int) -> Result:
        """Clicks twice at a point of the screen.

        Parameters:
            x: pixels from the left
            y: pixels from the top

        Fields of the result: clicked, button, accessibility_tree, restarted.
        """
        return await self._call("vm:double_click", {"x": x, "y": y})

    async def right_click(self, x: int | None = None, y: int | None = None) -> Result:
        """Clicks the right button at a point, or where the pointer is.

        Parameters:
            x: pixels from the left; with neither, where the pointer is
            y: pixels from the top

        Fields of the result: clicked, button, accessibility_tree, restarted.
        """
        return await self._call("vm:right_click", {"x": x, "y": y})

    async def move(self, x: int, y: int) -> Result:
        """Moves the pointer to a point.

        Parameters:
            x: pixels from the left
            y: pixels from the top

        Fields of the result: position, accessibility_tree, restarted.
        """
        return await self._call("vm:move", {"x": x, "y": y})

    async def drag(
        self, start_x: int, start_y: int, end_x: int, end_y: int, *, button: str | None = None, duration: float | None =
        None
    ) -> Result:
        """Presses at one point, moves, and lets go at another.

        Parameters:
            start_x: where to press
            start_y: where to press
            end_x: where to let go
            end_y: where to let go
            button: which (left, right, middle)
            duration: seconds on the way

        Fields of the result: from, to, accessibility_tree, restarted.
        """
        return await self._call("vm:drag", {
            "start_x": start_x, "start_y": start_y, "end_x": end_x, "end_y": end_y, "button": button, "duration":
            duration
        })

    async def mouse_down(self, button: str | None = None) -> Result:
        """Presses a button of the mouse and holds it.

        Parameters:
            button: which (left, right, middle)

        Fields of the result: button, accessibility_tree, restarted.
        """
        return await self._call("vm:mouse_down", {"button": button})

    async def mouse_up(self, button: str | None = None) -> Result:
        """Lets go of a button of the mouse.

        Parameters:
            button: which (left, right, middle)

        Fields of the result: button, accessibility_tree, restarted.
        """
        return await self._call("vm:mouse_up", {"button": button})

    async def scroll(self, x: int, y: int, clicks: int, *, horizontal: bool | None = None) -> Result:
        """Turns the wheel at a point.

        Parameters:
            x: pixels from the left
            y: pixels from the top
            clicks: of the wheel; up is positive, down negative
            horizontal: right is positive, left negative

        Fields of the result: position, clicks, accessibility_tree, restarted.
        """
        return await self._call("vm:scroll", {"x": x, "y": y, "clicks": clicks, "horizontal": horizontal})

    async def type(self, text: str, interval: float | None = None) -> Result:
        """Types text where the keyboard's focus is.

        Parameters:
            text: what to type, in any script; a line feed is the Enter key
            interval: seconds between keys

        Fields of the result: typed, length, accessibility_tree, restarted.
        """
        return await self._call("vm:type", {"text": text, "interval": interval})

    async def key(self, key: str) -> Result:
        """Presses a key and lets it go.

        Parameters:
            key: such as enter, tab, esc, f5, ctrl, a, left, pageup

        Fields of the result: key, accessibility_tree, restarted.
        """
        return await self._call("vm:key", {"key": key})

    async def key_down(self, key: str) -> Result:
        """Presses a key and holds it.

        Parameters:
            key: such as enter, tab, esc, f5, ctrl, a, left, pageup

        Fields of the result: key, accessibility_tree, restarted.
        """
        return await self._call("vm:key_down", {"key": key})

    async def key_up(self, key: str) -> Result:
        """Lets go of a key.

        Parameters:
            key: such as enter, tab, esc, f5, ctrl, a, left, pageup

        Fields of the result: key, accessibility_tree, restarted.
        """
        return await self._call("vm:key_up", {"key": key})

    async def hotkey(self, keys: Sequence[str]) -> Result:
        """Presses keys in order and lets them go in reverse: ctrl, c.

        Parameters:
            keys: pressed in this order, let go in reverse

        Fields of the result: keys, accessibility_tree, restarted.
        """
        return await self._call("vm:hotkey", {"keys": keys})

    async def wait(self, seconds: float | None = None, title: str | None = None) -> Result:
        """Waits so long, or until a window is there.

        Parameters:
            seconds: how long; with a title: at most
            title: until a window is there whose title or program has this text

        Fields of the result: waited, found, accessibility_tree, restarted.
        """
        return await self._call("vm:wait", {"seconds": seconds, "title": title})

    async def pyautogui(self, command: Sequence[str] | None = None, commands: Sequence[str] | None = None) -> Result:
        """Does what calls such as pyautogui.click(10, 20); pyautogui.write('text') say, with literal arguments.

        Parameters:
            command: such as pyautogui.click(10, 20); or a list of such
            commands: a list of such

        Fields of the result: commands, results, failed_indices, accessibility_tree, restarted.
        """
        return await self._call("vm:pyautogui", {"command": command, "commands": commands})

    async def done(self) -> Result:
        """Says that the task is done.

        Fields of the result: done.
        """
        return await self._call("vm:done", {})

    async def fail(self, reason: str | None = None) -> Result:
        """Says that the task cannot be done; vm:evaluate takes it into account.

        Parameters:
            reason: why

        Fields of the result: fail, reason.
        """
        return await self._call("vm:fail", {"reason": reason})

    async def evaluate(self, evaluator: Any) -> Result:
        """Compares what is in the box with what is expected, and gives a score from 0 to 1.

        Parameters:
            evaluator: {func, result, expected, options, conj, postconfig}

        Fields of the result: score, results, details, evaluator, last_action_failed.
        """
        return await self._call("vm:evaluate", {"evaluator": evaluator})


class AsyncBackends:
    """The backends of a box."""

    @property
    def bash(self) -> AsyncBashTools:
        """Tools `bash:*`."""
        return AsyncBashTools(self, "bash")  # type: ignore[arg-type]

    @property
    def file(self) -> AsyncFileTools:
        """Tools `file:*`."""
        return AsyncFileTools(self, "file")  # type: ignore[arg-type]

    @property
    def code(self) -> AsyncCodeTools:
        """Tools `code:*`."""
        return AsyncCodeTools(self, "code")  # type: ignore[arg-type]

    @property
    def jupyter(self) -> AsyncJupyterTools:
        """Tools `jupyter:*`."""
        return AsyncJupyterTools(self, "jupyter")  # type: ignore[arg-type]

    @property
    def agentscope(self) -> AsyncAgentscopeTools:
        """Tools `agentscope:*`."""
        return AsyncAgentscopeTools(self, "agentscope")  # type: ignore[arg-type]

    @property
    def ds(self) -> AsyncDsTools:
        """Tools `ds:*`."""
        return AsyncDsTools(self, "ds")  # type: ignore[arg-type]

    @property
    def shell(self) -> AsyncShellTools:
        """Tools `shell:*`."""
        return AsyncShellTools(self, "shell")  # type: ignore[arg-type]

    @property
    def command(self) -> AsyncCommandTools:
        """Tools `command:*`."""
        return AsyncCommandTools(self, "command")  # type: ignore[arg-type]

    @property
    def system(self) -> AsyncSystemTools:
        """Tools `system:*`."""
        return AsyncSystemTools(self, "system")  # type: ignore[arg-type]

    @property
    def watch(self) -> AsyncWatchTools:
        """Tools `watch:*`."""
        return AsyncWatchTools(self, "watch")  # type: ignore[arg-type]

    @property
    def util(self) -> AsyncUtilTools:
        """Tools `util:*`."""
        return AsyncUtilTools(self, "util")  # type: ignore[arg-type]

    @property
    def skills(self) -> AsyncSkillsTools:
        """Tools `skills:*`."""
        return AsyncSkillsTools(self, "skills")  # type: ignore[arg-type]

    @property
    def proxy(self) -> AsyncProxyTools:
        """Tools `proxy:*`."""
        return AsyncProxyTools(self, "proxy")  # type: ignore[arg-type]

    @property
    def knowlyr(self) -> AsyncKnowlyrTools:
        """Tools `knowlyr:*`."""
        return AsyncKnowlyrTools(self, "knowlyr")  # type: ignore[arg-type]

    @property
    def own(self) -> AsyncBoxTools:
        """Tools `box:*`."""
        return AsyncBoxTools(self, "box")  # type: ignore[arg-type]

    @property
    def recorded(self) -> AsyncTrajectoryTools:
        """Tools `trajectory:*`."""
        return AsyncTrajectoryTools(self, "trajectory")  # type: ignore[arg-type]

    @property
    def browser(self) -> AsyncBrowserTools:
        """Tools `browser:*`."""
        return AsyncBrowserTools(self, "browser")  # type: ignore[arg-type]

    @property
    def app(self) -> AsyncAppTools:
        """Tools `app:*`."""
        return AsyncAppTools(self, "app")  # type: ignore[arg-type]

    @property
    def desktop(self) -> AsyncDesktopTools:
        """Tools `desktop:*`."""
        return AsyncDesktopTools(self, "desktop")  # type: ignore[arg-type]

    @property
    def vm(self) -> AsyncVmTools:
        """Tools `vm:*`."""
        return AsyncVmTools(self, "vm")  # type: ignore[arg-type]
