#include "shared/transport/key_folder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/descriptor.h"
#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "shared/env/io_error.h"

namespace downpour::transport {
namespace {

constexpr size_t kKeyFileBytesMax = 4096;
constexpr const char* kListName = "allowed";
constexpr mode_t kForOthers = S_IRWXG | S_IRWXO;
constexpr mode_t kWriteForOthers = S_IWGRP | S_IWOTH;

/// Returns the error of a call that reads keys and that set errno.
Error key_error(const char* call, const std::string& path) {
  const int number = errno;
  Error error = io_error(call, path, number, Intent::kRead);
  if (number == ENOENT || number == ENOTDIR) {
    error.what = "the key file or key folder does not exist";
    error.hint = "`downpour keys FOLDER` creates the keys of a cluster";
    error.id = "DP-2711";
  }
  return error;
}

/// Returns the error of a call that writes keys and that set errno.
Error write_error(const char* call, const std::string& path) {
  return io_error(call, path, errno, Intent::kCreate);
}

std::string octal(mode_t mode) {
  const auto digit = [&](int shift) { return char('0' + (mode >> shift & 7)); };
  return {digit(6), digit(3), digit(0)};
}

/// Checks that the owner is this process's user or root, and that the mode grants other users none
/// of the bits in `forbidden`.
Result<void> check_owner(const struct stat& status, mode_t forbidden, const std::string& path) {
  const char* const fit = S_ISDIR(status.st_mode) ? "chmod 700" : "chmod 600";
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return Error{
        ErrorCode::kPermission,
        str("user ", status.st_uid, " owns it, but this process runs as user ", ::geteuid()), path,
        "the user that runs the process must own its keys: copy them", "DP-2712"};
  }
  if ((status.st_mode & forbidden) != 0) {
    return Error{ErrorCode::kPermission,
                 str("its mode is ", octal(status.st_mode), ", so other users could ",
                     (forbidden & (S_IRGRP | S_IROTH)) != 0 ? "use" : "change", " it"),
                 path, str(fit, " ", path), "DP-2712"};
  }
  return {};
}

/// Reads a plain file (no link) whose size and mode are acceptable.
Result<std::string> read_own_file(const std::string& path, size_t bytes_max, mode_t forbidden) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return key_error("open", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return key_error("fstat", path);
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::kPermission, "it is not a regular file", path, "", "DP-2712"};
  DP_TRY_VOID(check_owner(status, forbidden, path));
  std::string text(bytes_max + 1, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return key_error("read", path);
    if (got == 0) break;
    length += size_t(got);
  }
  if (length > bytes_max) {
    return Error{ErrorCode::kConfig, str("it has more than ", bytes_max, " bytes"), path, "",
                 "DP-2713"};
  }
  text.resize(length);
  return text;
}

Result<void> check_folder(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return key_error("stat", path);
  if (!S_ISDIR(status.st_mode))
    return Error{ErrorCode::kConfig, "it is not a folder", path, "", "DP-2711"};
  return check_owner(status, kForOthers, path);
}

/// Writes a file that other users cannot read, and makes it durable. With `replace` the new file
/// atomically replaces the old one; otherwise the name must be new.
Result<void> write_own_file(const std::string& path, const std::string& text, bool replace) {
  const std::string place = replace ? str(path, ".", ::getpid(), ".tmp") : path;
  if (replace) (void)::unlink(place.c_str());
  const Descriptor file(
      ::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return write_error("create", place);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(file.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return write_error("write", place);
    done += size_t(wrote);
  }
  if (::fchmod(file.get(), 0600) != 0 || ::fsync(file.get()) != 0)
    return write_error("fsync", place);
  if (replace && ::rename(place.c_str(), path.c_str()) != 0) return write_error("rename", path);
  return {};
}

std::string key_path(const std::string& folder, const std::string& name) {
  return str(folder, "/", name, ".key");
}

/// Adds the missing keys to an existing folder. The list is written last, because only keys in the
/// list may connect.
Result<AllowList> add_keys(const std::string& folder, const std::vector<WantedKey>& wanted,
                           AllowList list, std::vector<std::string>* added) {
  bool changed = false;
  for (const WantedKey& want : wanted) {
    if (!is_key_name(want.name)) {
      return Error{ErrorCode::kUsage, str("`", want.name, "` is not a valid name of a key"), "",
                   "use only letters, digits, `_`, `-` and `.`", "DP-1000"};
    }
    if (const AllowedKey* known = list.find_name(want.name)) {
      if (known->role == want.role) continue;
      return Error{ErrorCode::kUsage,
                   str("`", want.name, "` is a key of the role ", role_text(known->role), ", not ",
                       role_text(want.role)),
                   folder, "choose another name", "DP-1000"};
    }
    DP_TRY(const KeyPair pair, make_key_pair());
    DP_TRY_VOID(
        write_own_file(key_path(folder, want.name),
                       str("# A secret key of Downpour. Only its owner may read this file.\n",
                           hex_of(pair.secret_key), "\n"),
                       /*replace=*/true));
    list.add({want.role, want.name, pair.public_key});
    if (added != nullptr) added->push_back(want.name);
    changed = true;
  }
  if (changed) {
    DP_TRY_VOID(write_own_file(str(folder, "/", kListName), list.text(), /*replace=*/true));
  }
  return list;
}

}  // namespace

std::vector<WantedKey> one_key_a_role() {
  return {{wire::Role::kChief, "chief"},
          {wire::Role::kPs, "ps"},
          {wire::Role::kWorker, "worker"},
          {wire::Role::kInput, "input"}};
}

std::vector<WantedKey> one_key_a_process(uint32_t ps, uint32_t workers, uint32_t inputs) {
  std::vector<WantedKey> wanted = {{wire::Role::kChief, "chief"}};
  const auto add = [&](wire::Role role, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) wanted.push_back({role, str(role_text(role), "-", i)});
  };
  add(wire::Role::kPs, ps);
  add(wire::Role::kWorker, workers);
  add(wire::Role::kInput, inputs);
  return wanted;
}

Result<AllowList> read_allow_list(const std::string& folder) {
  DP_TRY_VOID(check_folder(folder));
  const std::string path = str(folder, "/", kListName);
  DP_TRY(const std::string text, read_own_file(path, AllowList::kBytesMax, kWriteForOthers));
  return AllowList::parse(text, path);
}

uint64_t allow_list_stamp(const std::string& folder) {
  struct stat status {};
  if (::stat(str(folder, "/", kListName).c_str(), &status) != 0) return 0;
  const uint64_t time =
      hash_combine(uint64_t(status.st_mtim.tv_sec), uint64_t(status.st_mtim.tv_nsec));
  return hash_combine(hash_combine(time, uint64_t(status.st_ino)), uint64_t(status.st_size)) | 1;
}

Result<KeyFolder> open_key_folder(const std::string& path) {
  DP_TRY(AllowList list, read_allow_list(path));
  return KeyFolder{path, std::move(list)};
}

Result<KeyPair> read_key_file(const std::string& path) {
  DP_TRY(const std::string text, read_own_file(path, kKeyFileBytesMax, kForOthers));
  std::string_view rest = text;
  std::optional<Key> secret;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    const auto key = key_from_hex(line);
    if (!key || secret) {
      return Error{ErrorCode::kConfig, "it does not contain one key of 64 hexadecimal digits", path,
                   "copy the file again, or create a new key with `downpour keys`", "DP-2713"};
    }
    secret = key;
  }
  if (!secret) {
    return Error{ErrorCode::kConfig, "it contains no key", path,
                 "copy the file again, or create a new key with `downpour keys`", "DP-2713"};
  }
  DP_TRY(const Key public_key, public_key_of(*secret));
  return KeyPair{public_key, *secret};
}

Result<KeyFolder> make_keys(const std::string& path, const std::vector<WantedKey>& wanted,
                            std::vector<std::string>* added) {
  struct stat status {};
  if (::stat(str(path, "/", kListName).c_str(), &status) == 0) {
    DP_TRY(AllowList list, read_allow_list(path));
    DP_TRY(list, add_keys(path, wanted, std::move(list), added));
    return KeyFolder{path, std::move(list)};
  }
  std::error_code error;
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, error);
  if (error) return io_error("mkdir", above.string(), error.value(), Intent::kCreate);
  const std::string making = str(path, ".", ::getpid(), ".tmp");
  std::filesystem::remove_all(making, error);
  if (::mkdir(making.c_str(), 0700) != 0) return write_error("mkdir", making);
  auto list = add_keys(making, wanted, {}, added);
  // rename() replaces only an empty folder.
  if (list && ::rename(making.c_str(), path.c_str()) == 0) return KeyFolder{path, *std::move(list)};
  const Error failed = list ? write_error("rename", path) : std::move(list).error();
  std::filesystem::remove_all(making, error);
  if (!list) return failed;
  if (::stat(str(path, "/", kListName).c_str(), &status) != 0) {
    return Error{ErrorCode::kCannotCreate,
                 "something else has the path of the key folder (" + failed.what + ")", path,
                 "choose a new or empty folder", "DP-2711"};
  }
  if (added != nullptr) added->clear();
  return make_keys(path, wanted, added);  // another process was faster
}

Result<void> revoke_key(const std::string& path, const std::string& name) {
  DP_TRY(AllowList list, read_allow_list(path));
  if (list.find_name(name) == nullptr) {
    return Error{ErrorCode::kUsage, str("the list has no key `", name, "`"), path,
                 "`downpour keys FOLDER --list` shows the names", "DP-1000"};
  }
  list.remove(name);
  DP_TRY_VOID(write_own_file(str(path, "/", kListName), list.text(), /*replace=*/true));
  if (::unlink(key_path(path, name).c_str()) != 0 && errno != ENOENT)
    return key_error("unlink", key_path(path, name));
  return {};
}

}  // namespace downpour::transport
