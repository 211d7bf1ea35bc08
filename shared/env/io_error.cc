#include "shared/env/io_error.h"

#include <cerrno>
#include <system_error>

#include "shared/base/str.h"

namespace downpour {
namespace {

ErrorCode code_of(int number, Intent intent) {
  switch (number) {
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermission;
    case ENOENT:
    case ENOTDIR:
      return intent == Intent::kRead ? ErrorCode::kNoInput : ErrorCode::kCannotCreate;
    case EISDIR:
    case EEXIST:
    case ENAMETOOLONG:
    case ELOOP:
      return intent == Intent::kRead ? ErrorCode::kIo : ErrorCode::kCannotCreate;
    default:
      return ErrorCode::kIo;
  }
}

std::string hint_of(int number, Intent intent) {
  switch (number) {
    case EACCES:
    case EPERM:
      return intent == Intent::kRead ? "check the owner and mode of the file and of its folders"
                                     : "check the owner and mode of the folder";
    case EROFS:
      return "the file system is mounted read-only";
    case ENOSPC:
    case EDQUOT:
      return "free some space on that file system";
    case EFBIG:
      return "raise the limit of the size of a file: ulimit -f unlimited";
    case EMFILE:
      return "raise the limit of open files of this process: ulimit -n 4096";
    case ENFILE:
      return "the machine has reached its limit of open files: end other programs, or raise "
             "fs.file-max";
    default:
      return "";
  }
}

}  // namespace

Error system_error(std::string_view what, const std::string& path, int number, Intent intent) {
  return {code_of(number, intent), str(what, ": ", std::generic_category().message(number)), path,
          hint_of(number, intent)};
}

Error io_error(const char* call, const std::string& path, int number, Intent intent) {
  return system_error(str(call, " failed"), path, number, intent);
}

}  // namespace downpour
