// The version of parallax. This file is its only source: CMake and Conan read it from here.
#pragma once

#define PARALLAX_VERSION_MAJOR 0
#define PARALLAX_VERSION_MINOR 1
#define PARALLAX_VERSION_PATCH 0
