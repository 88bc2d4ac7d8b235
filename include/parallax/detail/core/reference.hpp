// std::reference_wrapper, without the hash tables and searchers that <functional> brings along. AnyCommunicator includes it.
#pragma once

#if defined(__GLIBCXX__) && __has_include(<bits/refwrap.h>)
#include <bits/refwrap.h>
#else
#include <functional>
#endif
