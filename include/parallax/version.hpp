// The version of parallax. This file is its only source: CMake and Conan read it from here, and a Completion bears this
// version.
#pragma once

#if defined(PARALLAX_VERSION_MAJOR)
#error "parallax: this file includes the headers of two versions: give one of them to other source files"
#endif

// The major number.
#define PARALLAX_VERSION_MAJOR 0
// The minor number; while the major one is 0, a change of it may break users.
#define PARALLAX_VERSION_MINOR 2
// The number of the correction; a change of it breaks nobody.
#define PARALLAX_VERSION_PATCH 0

// Spells three numbers as a literal, for PARALLAX_VERSION.
#define PARALLAX_DETAIL_SPELT(major, minor, patch) #major "." #minor "." #patch
// Expands the macros of the numbers.
#define PARALLAX_DETAIL_VERSION(major, minor, patch) PARALLAX_DETAIL_SPELT(major, minor, patch)
// The version as a literal: "MAJOR.MINOR.PATCH". All names of the library lie in an inline namespace of its major and minor
// number.
#define PARALLAX_VERSION PARALLAX_DETAIL_VERSION(PARALLAX_VERSION_MAJOR, PARALLAX_VERSION_MINOR, PARALLAX_VERSION_PATCH)
