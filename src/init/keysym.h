/* The keys of a keyboard by name: as pyautogui and people call them, and as X does. */
#pragma once

#include <stdint.h>

#include "base/str.h"

uint32_t keysym_of(struct str name);         /* 0: there is no such key; case does not matter but for single letters */
uint32_t keysym_of_char(uint32_t character); /* 0: nothing that can be typed */
