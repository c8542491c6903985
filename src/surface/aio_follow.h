/* The `stream` of operations that start or look at a command. */
#pragma once

#include "surface/surface.h"

route_handler aio_follow;
