"""Limits of calls and their results: those of docs/tools.md, and our own where it names none."""

#: Characters of a path; the system says how long a name may be.
PATH_CHARS = 4_095
#: Bytes of a file in read_file and write_file.
FILE_BYTES = 1_000_000
#: Bytes of a file that read_file still reads a part of.
READ_BYTES = 50_000_000
#: Bytes that fetch_url reads of a page, and how many seconds it may take.
FETCHED_BYTES = 1_000_000
FETCH_SECONDS = 30.0
#: Bytes of a diff or a patch.
DIFF_BYTES = 5_000_000
#: The server extends a call's deadline with each piece of output, up to so many seconds after its beginning.
PROGRESS_SECONDS = 86_400.0

#: Entries of list_files, files of git.status and branches; a larger answer of the first two has `truncated`.
ENTRIES = 5_000
#: Matches of search_in_project, and characters of one line of them.
MATCHES = 500
MATCH_CHARS = 500
#: Files of find_files, unless the call says otherwise.
FOUND_FILES = 200
#: Bytes of a file that search_in_project still reads.
SEARCHED_BYTES = 2_000_000
#: Symbolic links followed on the way to one file, as in Linux.
LINKS = 40
#: Characters kept of each stream of a command: so many of its beginning and of its end.
OUTPUT_HEAD = 200_000
OUTPUT_TAIL = 200_000
#: Characters of one piece of streamed output, and seconds between pieces.
PIECE_CHARS = 8_000
PIECE_SECONDS = 0.2
#: Characters of the output in the message of a call that was stopped.
LAST_CHARS = 2_000
#: Seconds between SIGTERM and SIGKILL.
GRACE_SECONDS = 2.0
#: Seconds to wait for a persistent process's first output.
START_SECONDS = 1.0
#: Persistent processes at once.
PROCESSES = 16
#: Characters of a commit's message in git.log.
COMMIT_CHARS = 5_000
#: Characters of git's error output in a message.
GIT_MESSAGE_CHARS = 2_000
