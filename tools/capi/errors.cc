#include "tools/capi/errors.h"

#include "shared/base/error_text.h"
#include "tools/capi/downpour.h"

namespace downpour::capi {
namespace {

struct LastError {
  Error error;
  std::string id;
  int32_t code = 0;
};

LastError& last_error() {
  thread_local LastError last;
  return last;
}

}  // namespace

int32_t fail(Error error) {
  LastError& last = last_error();
  last.code = exit_code(error.code);
  last.id = error_id(error);
  last.error = std::move(error);
  return last.code;
}

}  // namespace downpour::capi

void dp_last_error(dp_error* error) {
  const auto& last = downpour::capi::last_error();
  error->code = last.code;
  error->id = last.id.c_str();
  error->what = last.error.what.c_str();
  error->where = last.error.where.c_str();
  error->hint = last.error.hint.c_str();
}
