// The version of parallax. This file is its only source: CMake and Conan read it from here, and a Completion bears this
// version.
#pragma once

// The major number.
#define PARALLAX_VERSION_MAJOR 0
// The minor number; while the major one is 0, a change of it may break users.
#define PARALLAX_VERSION_MINOR 2
// The number of the correction; a change of it breaks nobody.
#define PARALLAX_VERSION_PATCH 0
