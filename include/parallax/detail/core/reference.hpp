// std::reference_wrapper, without the hash tables and searchers of <functional>. Included by AnyCommunicator.
#pragma once

#if defined(__GLIBCXX__) && __has_include(<bits/refwrap.h>)
#include <bits/refwrap.h>
#else
#endif
