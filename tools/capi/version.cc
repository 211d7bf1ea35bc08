#include "shared/base/version.h"

#include "tools/capi/downpour.h"

const char* dp_version(void) { return downpour::kBuildVersion; }
