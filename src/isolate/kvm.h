/* Is there a hardware KVM? A /dev/kvm that opens proves nothing: some clouds offer a software back end behind it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

bool kvm_works(char *detail, size_t size); /* runs a loop of instructions in a guest, and times it */
