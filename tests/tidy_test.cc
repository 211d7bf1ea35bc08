// Tidiness: the rules of CONTRIBUTING.md for source files that a machine can check. Each check is a
// function of one file's path and text and is tested on small strings. The last case checks the
// tree.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/source_tree.h"

namespace {

using namespace downpour::testing;
namespace fs = std::filesystem;
using Findings = std::vector<std::string>;

constexpr size_t kLinesMax = 600;

bool starts_with_any(std::string_view text, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](auto prefix) { return text.starts_with(prefix); });
}

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == path.npos ? 0 : slash));
}

std::string at(std::string_view path, size_t line, std::string_view what) {
  return std::string(path) + ":" + std::to_string(line) + ": " + std::string(what);
}

// ---- which folder may include which

// Returns the level of one of our files in the module diagram of docs/architecture.md, counted from
// the bottom, or -1 for other files. A file may include lower levels and its own folder. In
// addition, a role may include itself (core <- runtime <- program.cc), and tools may include tools.
int height_of(std::string_view path) {
  static const std::array<std::vector<std::string_view>, 6> heights = {{
      {"schemas/", "shared/base/"},
      {"shared/plan/", "shared/tensor/", "shared/env/", "shared/metrics/", "shared/job/",
       "shared/objects/", "shared/flags/"},
      {"shared/wire/"},
      {"shared/transport/", "shared/model/", "shared/optim/", "shared/data/", "shared/synth/",
       "shared/checkpoint/"},
      {"ps/", "worker/", "chief/"},
      {"tools/"},
  }};
  for (size_t h = 0; h < heights.size(); ++h) {
    for (const auto folder : heights[h]) {
      if (path.starts_with(folder)) return int(h);
    }
  }
  return -1;
}

// Exceptions: includes between folders of one level, with the reason.
bool is_justified(std::string_view folder, std::string_view included) {
  // A job contains OptimizerSpec and InitSpec as the model and the ps use them. Both are structs
  // without behaviour.
  if (folder == "shared/job" && included == "shared/tensor/variables.h") return true;
  // main() of the worker passes it the ps of --with-ps.
  return folder == "worker" && included == "ps/program.h";
}

// The folders of shared/data, from bytes to batches: each may include itself and those before it.
// -1: not in shared/data.
int data_level(std::string_view path) {
  static constexpr std::array<std::string_view, 5> kFolders = {"bytes/", "records/", "values/",
                                                               "formats/", "reading/"};
  constexpr std::string_view kData = "shared/data/";
  if (!path.starts_with(kData)) return -1;
  const std::string_view rest = path.substr(kData.size());
  const auto found = std::find_if(kFolders.begin(), kFolders.end(),
                                  [&](auto folder) { return rest.starts_with(folder); });
  return found == kFolders.end() ? -1 : int(found - kFolders.begin());
}

// The chief's core has three layers, each a folder: `run` decides when the job is over, `work` what
// is to be done, `cluster` which process owns what. Files for all of them are in chief/core itself.
bool crosses_layers(std::string_view folder, std::string_view included) {
  const std::string_view root = "chief/core/";
  if (!included.starts_with(root) || !(folder == "chief/core" || folder.starts_with(root)))
    return false;
  const std::string other = folder_of(included);
  return other != "chief/core" && other != folder && folder != "chief/core/run";
}

bool is_core(std::string_view path) {
  return starts_with_any(path, {"ps/core/", "worker/core/", "chief/core/"});
}

Findings check_directions(std::string_view path, std::string_view text) {
  Findings findings;
  const int height = height_of(path);
  if (height < 0) return findings;  // tests may include everything
  const std::string folder = folder_of(path);
  const std::string role(path.substr(0, path.find('/')));
  for (const Include& include : includes_of(text)) {
    const int other = height_of(include.path);
    if (other < 0 || folder_of(include.path) == folder) continue;
    if (path.starts_with("shared/data/") && include.path.starts_with("shared/data/")) {
      if (data_level(include.path) > data_level(path))
        findings.push_back(at(path, include.line, "must not include " + include.path));
      continue;
    }
    const bool own_role = height >= 4 && include.path.starts_with(role + "/");
    if (other >= height && !own_role && !is_justified(folder, include.path))
      findings.push_back(at(path, include.line, "must not include " + include.path));
    if (own_role && !path.starts_with("tools/") &&
        include.path.find("/runtime/") != std::string::npos && is_core(path))
      findings.push_back(at(path, include.line, "a core must not include its shell"));
    if (crosses_layers(folder, include.path))
      findings.push_back(at(path, include.line, "this layer must not include " + include.path));
    const bool for_cores =
        own_role || include.path == "shared/wire/messages.h" ||
        (include.path.starts_with("shared/wire/") && include.path.ends_with("_messages.h")) ||
        include.path == "shared/wire/partition_set.h" ||
        include.path == "shared/wire/peer_identity.h" || include.path == "shared/job/job.h" ||
        include.path == "shared/job/metric_names.h" ||
        include.path == "shared/checkpoint/image.h" ||
        starts_with_any(include.path, {"shared/base/", "shared/plan/", "shared/tensor/",
                                       "shared/model/", "shared/optim/", "shared/metrics/"});
    if (is_core(path) && !for_cores)
      findings.push_back(at(path, include.line, "a core must not include " + include.path));
  }
  return findings;
}

// ---- names that the deterministic folders must not use

Findings check_purity(std::string_view path, std::string_view text) {
  Findings findings;
  if (!is_core(path) && !starts_with_any(path, {"shared/plan/", "shared/model/", "shared/optim/"}))
    return findings;
  static const std::set<std::string_view> headers = {"chrono",
                                                     "ctime",
                                                     "time.h",
                                                     "thread",
                                                     "mutex",
                                                     "shared_mutex",
                                                     "condition_variable",
                                                     "future",
                                                     "semaphore",
                                                     "latch",
                                                     "barrier",
                                                     "iostream",
                                                     "random",
                                                     "fstream",
                                                     "filesystem",
                                                     "unistd.h",
                                                     "fcntl.h",
                                                     "pthread.h",
                                                     "poll.h",
                                                     "sys/time.h",
                                                     "netdb.h",
                                                     "zmq.h",
                                                     "sys/socket.h",
                                                     "sys/stat.h",
                                                     "stop_token",
                                                     "syncstream"};
  for (const Include& include : includes_of(text)) {
    if (headers.contains(include.path))
      findings.push_back(at(path, include.line, "must not include <" + include.path + ">"));
  }
  // A word that ends in * matches any ending.
  static const std::vector<std::string_view> words = {
      "steady_clock",  "system_clock",  "high_resolution_clock",
      "clock_gettime", "gettimeofday",  "std::time",
      "std::clock",    "std::thread",   "std::jthread",
      "std::async",    "std::mutex",    "std::atomic*",
      "thread_local",  "sleep_for",     "sleep_until",
      "usleep",        "nanosleep",     "ifstream",
      "ofstream",      "fstream",       "fopen",
      "::open",        "socket",        "getenv",
      "secure_getenv", "random_device", "std::rand",
      "rand",          "std::shuffle",  "std::mt19937*",
      "std::cout",     "std::cerr",     "printf",
      "fprintf",       "getpid"};
  size_t number = 0;
  const std::string code = code_of(text);
  for (const std::string_view line : lines_of(code)) {
    ++number;
    for (std::string_view word : words) {
      const bool any_ending = word.ends_with('*');
      if (any_ending) word.remove_suffix(1);
      for (size_t from = line.find(word); from != line.npos; from = line.find(word, from + 1)) {
        const size_t end = from + word.size();
        const bool begins = from == 0 || !is_word_char(line[from - 1]);
        const bool ends = any_ending || end == line.size() || !is_word_char(line[end]);
        if (begins && ends)
          findings.push_back(at(path, number, "must not name " + std::string(word)));
      }
    }
    const size_t distribution = line.find("_distribution");
    if (distribution != line.npos && line.find("std::") < distribution)
      findings.push_back(
          at(path, number, "std::*_distribution differs between libraries: use shared/base/rng.h"));
    // The order of a sum across threads is not fixed. `omp simd` alone has a fixed order per build.
    if (line.find("#pragma omp") != line.npos && line.find("reduction(") != line.npos &&
        (line.find(" parallel") != line.npos || line.find(" for") != line.npos))
      findings.push_back(
          at(path, number, "a sum over threads has no fixed order: sum fixed chunks"));
  }
  return findings;
}

// ---- each third-party library is used by one module only

Findings check_third_parties(std::string_view path, std::string_view text) {
  Findings findings;
  struct Rule {
    std::vector<std::string_view> headers;
    std::vector<std::string_view> allowed;
  };
  static const std::vector<Rule> rules = {
      {{"zmq.h", "zmq_addon.hpp", "zmq.hpp", "shared/transport/zmq_transport.h"},
       {"shared/transport/zmq_"}},
      {{"capnp/", "kj/", "schemas/"}, {"shared/wire/", "shared/checkpoint/"}},
      {{"toml++/", "toml.hpp"}, {"shared/job/toml_tree.cc"}},
      {{"CLI/"}, {"tools/cli/", "shared/flags/flags.cc"}},
      {{"Eigen/", "unsupported/Eigen", "dnnl", "oneapi/dnnl"}, {"shared/model/"}},
      {{"zlib.h"}, {"shared/data/", "tools/export/archive.cc"}},
      {{"zstd.h"}, {"shared/data/"}},
      {{"curl/"}, {"shared/objects/http.cc"}},
      {{"openssl/"}, {"shared/objects/sigv4.cc"}},
      {{"simdjson"}, {"shared/data/formats/json/json_scan.h"}},
      {{"isa-l", "crc.h"}, {"shared/base/crc32c.cc"}},
      {{"xxhash.h"}, {"shared/checkpoint/checksum.cc", "shared/data/bytes/xxh3.cc"}},
      {{"catch2/"}, {"tests/"}},
  };
  for (const Include& include : includes_of(text)) {
    for (const Rule& rule : rules) {
      if (starts_with_any(include.path, rule.headers) && !starts_with_any(path, rule.allowed) &&
          !path.starts_with("tests/"))
        findings.push_back(at(path, include.line, include.path + " is not for this folder"));
    }
  }
  return findings;
}

// ---- form

Findings check_form(std::string_view path, std::string_view text) {
  Findings findings;
  const auto lines = lines_of(text);
  const bool is_header = path.ends_with(".h");
  const bool is_code = is_header || path.ends_with(".cc");
  if (is_code && lines.size() > kLinesMax)
    findings.push_back(
        at(path, lines.size(), "more than 600 lines: look for the second idea in it"));
  if (is_header && std::find(lines.begin(), lines.end(), "#pragma once") == lines.end())
    findings.push_back(at(path, 1, "no #pragma once"));
  // Folders of a developer's machine. Tests may use an invented home folder.
  static const std::array<std::string, 4> machine = {
      std::string("/ro") + "ot/", std::string("/wo") + "rk/", std::string("/Us") + "ers/",
      std::string("/ho") + "me/"};
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.find('\t') != line.npos) findings.push_back(at(path, i + 1, "a tab"));
    if (line.ends_with(' ') && !path.ends_with(".md"))
      findings.push_back(at(path, i + 1, "a blank at the end"));
    if (is_header && line.find("using namespace ") != line.npos)
      findings.push_back(at(path, i + 1, "using namespace in a header"));
    for (const std::string& folder : machine) {
      const size_t found = line.find(folder);
      if (found == line.npos || (path.starts_with("tests/") && folder == machine[3])) continue;
      if (found == 0 ||
          (!is_word_char(line[found - 1]) &&
           std::string_view("./-}~$*").find(line[found - 1]) == std::string_view::npos))
        findings.push_back(at(path, i + 1, "the path of one machine: " + folder));
    }
  }
  return findings;
}

// Checks that x.cc includes x.h first. `exists` returns whether the tree has a file.
Findings check_own_header(std::string_view path, std::string_view text,
                          const std::function<bool(const std::string&)>& exists) {
  if (!path.ends_with(".cc")) return {};
  const std::string header = std::string(path.substr(0, path.size() - 3)) + ".h";
  const auto includes = includes_of(text);
  if (!exists(header) || (!includes.empty() && includes[0].path == header)) return {};
  return {
      at(path, includes.empty() ? 1 : includes[0].line, "its own header is not included first")};
}

// Checks that the relative links of a page lead to existing files.
Findings check_links(std::string_view path, std::string_view text,
                     const std::function<bool(const std::string&)>& exists) {
  Findings findings;
  if (!path.ends_with(".md")) return findings;
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    for (size_t from = line.find("]("); from != line.npos; from = line.find("](", from + 1)) {
      const size_t end = line.find(')', from);
      std::string target(line.substr(from + 2, end == line.npos ? line.npos : end - from - 2));
      target = target.substr(0, target.find('#'));
      if (target.empty() || target.find("://") != std::string::npos) continue;
      if (!exists((fs::path(folder_of(path)) / target).lexically_normal().string()))
        findings.push_back(at(path, number, "a link to nothing: " + target));
    }
  }
  return findings;
}

// ---- tests of the checks on small strings

TEST_CASE("an include against the direction of the modules is found", "[tidy]") {
  const auto including = [](std::string_view path, const std::string& header) {
    return check_directions(path, "#include \"" + header + "\"\n").size();
  };
  CHECK(including("shared/base/a.cc", "shared/tensor/batch.h") == 1);
  CHECK(including("shared/plan/a.cc", "shared/tensor/batch.h") == 1);
  CHECK(including("shared/data/a.cc", "shared/model/graph.h") == 1);
  CHECK(including("shared/wire/a.cc", "ps/core/table.h") == 1);
  CHECK(including("ps/runtime/a.cc", "worker/core/events.h") == 1);
  CHECK(including("chief/runtime/a.cc", "tools/cli/run.h") == 1);
  CHECK(including("shared/job/job.h", "shared/tensor/variables.h") == 0);
  CHECK(including("shared/job/job.h", "shared/tensor/batch.h") == 1);
  CHECK(including("shared/data/a.cc", "shared/plan/shard.h") == 0);
  CHECK(including("shared/data/values/a.cc", "shared/data/formats/parser.h") == 1);
  CHECK(including("shared/data/formats/json/a.cc", "shared/data/reading/read_plan.h") == 1);
  CHECK(including("shared/data/formats/json/a.cc", "shared/data/formats/parser.h") == 0);
  CHECK(including("shared/data/reading/a.cc", "shared/data/bytes/file.h") == 0);
  CHECK(including("ps/runtime/a.cc", "ps/core/table.h") == 0);
  CHECK(including("tools/cli/a.cc", "tools/bench/bench.h") == 0);
  CHECK(including("tools/cli/a.cc", "chief/runtime/console.h") == 0);
}

TEST_CASE("an include between the layers of the chief's core is found", "[tidy]") {
  const auto including = [](std::string_view path, const std::string& header) {
    return check_directions(path, "#include \"" + header + "\"\n").size();
  };
  CHECK(including("chief/core/work/a.cc", "chief/core/cluster/ownership.h") == 1);
  CHECK(including("chief/core/cluster/a.cc", "chief/core/work/pass.h") == 1);
  CHECK(including("chief/core/work/a.cc", "chief/core/run/history.h") == 1);
  CHECK(including("chief/core/cluster/a.cc", "chief/core/run/phases.h") == 1);
  CHECK(including("chief/core/a.h", "chief/core/work/pass.h") == 1);
  CHECK(including("chief/core/work/a.cc", "chief/core/work/pass.h") == 0);
  CHECK(including("chief/core/work/a.cc", "chief/core/turn.h") == 0);
  CHECK(including("chief/core/run/a.cc", "chief/core/work/pass.h") == 0);
  CHECK(including("chief/core/run/a.cc", "chief/core/cluster/ownership.h") == 0);
  CHECK(including("chief/runtime/a.cc", "chief/core/run/chief_core.h") == 0);
}

TEST_CASE("a core that includes a module with input or output is found", "[tidy]") {
  const auto including = [](const std::string& header) {
    return check_directions("worker/core/a.cc", "#include \"" + header + "\"\n").size();
  };
  CHECK(including("shared/env/clock.h") == 1);
  CHECK(including("shared/transport/transport.h") == 1);
  CHECK(including("shared/data/reading/dataset.h") == 1);
  CHECK(including("shared/wire/codec.h") == 1);
  CHECK(including("shared/job/job_file.h") == 1);
  CHECK(including("shared/checkpoint/manifest.h") == 1);
  CHECK(including("worker/runtime/worker_node.h") == 1);
  CHECK(including("shared/wire/messages.h") == 0);
  CHECK(including("shared/wire/lease_messages.h") == 0);
  CHECK(including("shared/wire/peer_identity.h") == 0);
  CHECK(including("shared/job/job.h") == 0);
  CHECK(including("shared/checkpoint/image.h") == 0);
  CHECK(including("worker/core/events.h") == 0);
}

TEST_CASE("a core that names a clock, a thread or a file is found, but not a comment that does",
          "[tidy]") {
  const auto naming = [](std::string_view line) {
    return check_purity("ps/core/a.cc", line).size();
  };
  CHECK(naming("auto now = std::chrono::steady_clock::now();") == 1);
  CHECK(naming("std::mutex m;") == 1);
  CHECK(naming("std::atomic_int n;") == 1);
  CHECK(naming("std::ofstream out(path);") == 1);
  CHECK(naming("int s = socket(1, 2, 3);") == 1);
  CHECK(naming("std::shuffle(a, b, g);") == 1);
  CHECK(naming("std::normal_distribution<float> d;") == 1);
  CHECK(naming("#include <thread>") == 1);
  CHECK(naming("#pragma omp parallel for reduction(+ : sum)") == 1);
  CHECK(naming("#pragma omp simd reduction(+ : sum)") == 0);
  CHECK(naming("// no std::mutex here, /* nor there */ socket") == 0);
  CHECK(naming("/* a\nstd::mutex */ int x;") == 0);
  CHECK(naming("error(\"std::mutex\");") == 0);
  CHECK(naming("const int fd = ::open(path, 0);") == 1);
  CHECK(naming("int brand(int open_shards);") == 0);
  CHECK(naming("x = 1'000; std::mutex m; y = '\"';") == 1);
  CHECK(check_purity("ps/runtime/a.cc", "std::mutex m;").empty());
}

TEST_CASE("a third-party header outside its module is found", "[tidy]") {
  const auto including = [](std::string_view path, const std::string& header) {
    return check_third_parties(path, "#include <" + header + ">\n").size();
  };
  CHECK(including("chief/runtime/a.cc", "zmq.hpp") == 1);
  CHECK(including("shared/transport/address.cc", "zmq.hpp") == 1);
  CHECK(including("shared/transport/zmq_transport.cc", "zmq.hpp") == 0);
  CHECK(including("ps/core/a.h", "capnp/message.h") == 1);
  CHECK(including("worker/core/a.h", "schemas/wire.capnp.h") == 1);
  CHECK(including("shared/checkpoint/a.cc", "schemas/checkpoint.capnp.h") == 0);
  CHECK(including("shared/model/a.cc", "toml++/toml.h") == 1);
  CHECK(including("chief/runtime/a.cc", "CLI/CLI.hpp") == 1);
  CHECK(including("shared/flags/flags.cc", "CLI/CLI.hpp") == 0);
  CHECK(including("ps/core/a.cc", "Eigen/Core") == 1);
}

TEST_CASE("formal defects are found", "[tidy]") {
  CHECK(check_form("ps/core/a.h", "#pragma once\nint x;\n").empty());
  CHECK(check_form("ps/core/a.h", "int x;\n").size() == 1);
  CHECK(check_form("ps/core/a.h", "#pragma once\nusing namespace std;\n").size() == 1);
  CHECK(check_form("ps/core/a.cc", "using namespace std;\n").empty());
  CHECK(check_form("ps/core/a.cc", "\tint x;\n").size() == 1);
  CHECK(check_form("ps/core/a.cc", "int x; \n").size() == 1);
  CHECK(check_form("docs/a.md", std::string("see /wo") + "rk/main/x").size() == 1);
  CHECK(check_form("docs/a.md", std::string("see frame") + "work/main/x and a/work/b").empty());
  std::string text;
  for (size_t i = 0; i < kLinesMax; ++i) text += "x\n";
  CHECK(check_form("ps/core/a.cc", text).empty());
  CHECK(check_form("ps/core/a.cc", text + "x\n").size() == 1);
}

TEST_CASE("a missing own header and a dead link are found", "[tidy]") {
  const auto exists = [](const std::string& path) {
    return path == "ps/core/a.h" || path == "docs/b.md";
  };
  CHECK(check_own_header("ps/core/a.cc", "#include <map>\n#include \"ps/core/a.h\"\n", exists)
            .size() == 1);
  CHECK(check_own_header("ps/core/a.cc", "int x;\n", exists).size() == 1);
  CHECK(check_own_header("ps/core/a.cc", "// Says.\n#include \"ps/core/a.h\"\n", exists).empty());
  CHECK(check_own_header("ps/core/other.cc", "#include <map>\n", exists).empty());
  CHECK(check_links("docs/a.md",
                    "[b](b.md#top) and [there](../ps/core/a.h), [web](https://x.y/z), [here](#top)",
                    exists)
            .empty());
  CHECK(check_links("docs/a.md", "[c](c.md)", exists).size() == 1);
}

// ---- the tree

TEST_CASE("the tree is tidy", "[tidy]") {
  static const std::set<std::string> kinds = {".h",  ".cc",   ".capnp", ".cmake", ".txt",
                                              ".md", ".toml", ".py",    ".json"};
  Findings findings;
  std::set<std::string> source_folders;
  size_t files = 0;
  const auto add = [&](Findings&& more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  for (const std::string& path : files_of_tree()) {
    if (!kinds.contains(fs::path(path).extension().string()) ||
        path.find("/golden/") != std::string::npos)
      continue;
    const std::string text = text_of_file(path);
    ++files;
    add(check_form(path, text));
    add(check_links(path, text, is_in_tree));
    if (!is_cpp(path) && !path.ends_with(".capnp")) continue;
    add(check_directions(path, text));
    add(check_purity(path, text));
    add(check_third_parties(path, text));
    add(check_own_header(path, text, is_in_tree));
    if (!path.starts_with("tests/")) source_folders.insert(folder_of(path));
  }
  for (const std::string& folder : source_folders) {
    // The README of a module, as in shared/data, may describe the folders inside it.
    std::string described = folder;
    while (!is_in_tree(described + "/README.md") && std::ranges::count(described, '/') > 1)
      described = folder_of(described);
    if (!is_in_tree(described + "/README.md")) findings.push_back(folder + ": no README.md");
  }
  std::string all;
  for (const std::string& finding : findings) all += finding + "\n";
  INFO(all);
  CHECK(findings.empty());
  CHECK(files > 100);  // the check has read the tree
}

}  // namespace
