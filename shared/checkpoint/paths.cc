#include "shared/checkpoint/paths.h"

#include <charconv>
#include <cstdio>

#include "shared/base/str.h"

namespace downpour::checkpoint {
namespace {

/// Takes a number from the front. It must have no sign and no leading zero, so that each number has
/// exactly one name.
std::optional<uint32_t> take_number(std::string_view* text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || (text->front() == '0' && end != text->data() + 1)) return {};
  text->remove_prefix(size_t(end - text->data()));
  return value;
}

bool take(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::string manifest_name(ViewId id) { return str("manifest-", id.term, '-', id.n, ".dpm"); }

}  // namespace

std::string run_path(const std::string& run_dir) { return run_dir + "/run"; }
std::string job_path(const std::string& run_dir) { return run_dir + "/job.toml"; }
std::string checkpoints_dir(const std::string& run_dir) { return run_dir + "/checkpoints"; }
std::string term_path(const std::string& run_dir, uint32_t term) {
  return str(run_dir, "/term-", term);
}

std::string manifest_path(const std::string& run_dir, ViewId id) {
  return str(checkpoints_dir(run_dir), '/', manifest_name(id));
}

std::string sibling_manifest_path(const std::string& path, ViewId id) {
  return path.substr(0, path.find_last_of('/') + 1) + manifest_name(id);
}

std::string checkpoint_folder(const std::string& run_dir, ViewId id) {
  return str(checkpoints_dir(run_dir), '/', id.term, '-', id.n);
}

std::string image_path(const std::string& folder, const wire::ImageRef& ref) {
  if (ref.checkpoint == ViewId{}) return folder + "/" + ref.file;
  const std::string beside = folder.substr(0, folder.find_last_of('/') + 1);
  return str(beside, ref.checkpoint.term, '-', ref.checkpoint.n, '/', ref.file);
}

std::string image_file_name(uint32_t index, uint32_t thread, Incarnation incarnation) {
  char name[64];
  std::snprintf(name, sizeof(name), "ps-%u-%u-%016llx.ckpt", index, thread,
                static_cast<unsigned long long>(raw(incarnation)));
  return name;
}

std::string moves_dir(const std::string& run_dir) { return run_dir + "/moves"; }

std::string move_file_name(ViewId ownership_generation, uint32_t index, uint32_t thread,
                           Incarnation incarnation) {
  return str("move-", ownership_generation.term, "-", ownership_generation.n, "-",
             image_file_name(index, thread, incarnation));
}

std::optional<uint32_t> parse_term_name(std::string_view name) {
  if (!take(&name, "term-")) return {};
  const auto term = take_number(&name);
  return name.empty() ? term : std::nullopt;
}

std::optional<ViewId> parse_checkpoint_name(std::string_view name) {
  const auto term = take_number(&name);
  if (!term || !take(&name, "-")) return {};
  const auto n = take_number(&name);
  if (!n || !name.empty()) return {};
  return ViewId{*term, *n};
}

std::optional<ViewId> parse_manifest_name(std::string_view name) {
  if (!take(&name, "manifest-") || !name.ends_with(".dpm")) return {};
  name.remove_suffix(4);
  return parse_checkpoint_name(name);
}

}  // namespace downpour::checkpoint
