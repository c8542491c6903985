/* Words of a line as a person writes it: separated by blanks and line ends, parts of them in "" or '' where they have
 * blanks themselves. No other character means anything. */
#pragma once

/* The next word of *rest, cut out of it in place, or NULL: there is none. *rest is NULL behind a quote that is not closed,
 * which is part of no word. */
char *word_next(char **rest);
