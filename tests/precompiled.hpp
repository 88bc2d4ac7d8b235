// What most tests include, compiled once.
#pragma once

#include "catch.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
