// The C interface of libdownpour.so.
#pragma once

#ifdef __cplusplus
#define DP_API extern "C" __attribute__((visibility("default")))
#else
#define DP_API __attribute__((visibility("default")))
#endif

/// Returns the version of the library, for example "0.1.0". The string is constant.
DP_API const char* dp_version(void);
