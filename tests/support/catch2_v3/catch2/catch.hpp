// Catch2 version 3 under the name of the single header of version 2.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;  // NOLINT: as version 2 has it
