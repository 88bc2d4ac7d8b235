// Source of parallax::compiled: ranks as threads, and the start of programs.
#define PARALLAX_INLINE
#include "parallax/detail/launch/guard-inl.hpp"
#include "parallax/detail/launch/last_words-inl.hpp"
#include "parallax/detail/launch/launcher-inl.hpp"
#include "parallax/detail/launch/mpiexec-inl.hpp"
#include "parallax/detail/launch/options-inl.hpp"
#include "parallax/detail/launch/resources-inl.hpp"
#include "parallax/detail/launch/run-inl.hpp"
#include "parallax/detail/transport/thread-inl.hpp"
#include "parallax/detail/transport/thread/group-inl.hpp"
