// The standard algorithms, without the ranges that <algorithm> brings along, which cost a compiler twice as much.
#pragma once

#include <utility>

#if defined(__GLIBCXX__) && __has_include(<bits/stl_algo.h>)
#include <bits/stl_algo.h>
#else
#include <algorithm>
#endif
