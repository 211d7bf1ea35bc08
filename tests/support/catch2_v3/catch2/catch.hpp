// Catch2 version 3 under the name of version 2's only header.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;  // NOLINT: as version 2 has it
