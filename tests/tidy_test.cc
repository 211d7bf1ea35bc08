// Source tidiness: the rules of CONTRIBUTING.md that a machine can hold. Each check is a function
// of one file's path and text, tested on small strings below; the last case runs them on the tree.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/source_tree.h"

namespace {

namespace fs = std::filesystem;
using Findings = std::vector<std::string>;

constexpr size_t kLinesMax = 600;

// ---- what a file says

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

// The text without comments and without what stands in quotes; line breaks stay.
std::string code_of(std::string_view text) {
  enum class In { kCode, kLine, kBlock, kString, kChar } in = In::kCode;
  std::string code;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\n') {
      code += c;
      if (in != In::kBlock) in = In::kCode;
      continue;
    }
    switch (in) {
      case In::kCode: {
        // A digit before ' is a number's separator.
        const bool separator =
            c == '\'' && i > 0 && std::isxdigit(static_cast<unsigned char>(text[i - 1])) != 0;
        if (c == '/' && next == '/') {
          in = In::kLine;
        } else if (c == '/' && next == '*') {
          in = In::kBlock;
          ++i;
        } else if (c == '"' || (c == '\'' && !separator)) {
          in = c == '"' ? In::kString : In::kChar;
        } else {
          code += c;
        }
        break;
      }
      case In::kBlock:
        if (c == '*' && next == '/') {
          in = In::kCode;
          ++i;
        }
        break;
      case In::kString:
      case In::kChar:
        if (c == '\\') {
          ++i;
        } else if (c == (in == In::kString ? '"' : '\'')) {
          in = In::kCode;
        }
        break;
      case In::kLine:
        break;
    }
  }
  return code;
}

struct Include {
  size_t line = 0;
  std::string path;
};
std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> found;
  size_t number = 0;
  for (std::string_view line : lines_of(text)) {
    ++number;
    if (!line.starts_with("#include ")) continue;
    const size_t begin = line.find_first_of("<\"");
    const size_t end = line.find_last_of(">\"");
    if (begin < end && end != line.npos)
      found.push_back({number, std::string(line.substr(begin + 1, end - begin - 1))});
  }
  return found;
}

bool starts_with_any(std::string_view text, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](auto prefix) { return text.starts_with(prefix); });
}

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == path.npos ? 0 : slash));
}

std::string at(std::string_view path, size_t line, std::string_view what) {
  return std::string(path) + ":" + std::to_string(line) + ": " + std::string(what);
}

// ---- who may include whom

// The height of a file of ours in the picture of docs/architecture.md; -1: not of ours. A file may
// include what stands lower, and its own folder; roles include themselves (core <- runtime <-
// main.cc) and tools include tools.
int height_of(std::string_view path) {
  static const std::array<std::vector<std::string_view>, 6> heights = {{
      {"schemas/", "shared/base/"},
      {"shared/plan/", "shared/tensor/", "shared/env/", "shared/metrics/", "shared/job/",
       "shared/objects/"},
      {"shared/wire/"},
      {"shared/transport/", "shared/model/", "shared/optim/", "shared/data/", "shared/checkpoint/"},
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

// Includes between folders of one height, with the reason.
bool is_justified(std::string_view folder, std::string_view included) {
  // A job carries OptimizerSpec and InitSpec as the model and the ps use them: structs without
  // behaviour.
  return folder == "shared/job" && included == "shared/tensor/variables.h";
}

bool is_core(std::string_view path) {
  return starts_with_any(path, {"ps/core/", "worker/core/", "chief/core/"});
}

Findings check_directions(std::string_view path, std::string_view text) {
  Findings findings;
  const int height = height_of(path);
  if (height < 0) return findings;  // tests may include all
  const std::string folder = folder_of(path);
  const std::string role(path.substr(0, path.find('/')));
  for (const Include& include : includes_of(text)) {
    const int other = height_of(include.path);
    if (other < 0 || folder_of(include.path) == folder) continue;
    const bool own_role = height >= 4 && include.path.starts_with(role + "/");
    if (other >= height && !own_role && !is_justified(folder, include.path))
      findings.push_back(at(path, include.line, "must not include " + include.path));
    if (own_role && !path.starts_with("tools/") &&
        include.path.find("/runtime/") != std::string::npos && is_core(path))
      findings.push_back(at(path, include.line, "a core must not include its shell"));
    const bool for_cores =
        own_role || include.path == "shared/wire/messages.h" ||
        include.path == "shared/wire/peer_identity.h" || include.path == "shared/job/job.h" ||
        include.path == "shared/checkpoint/image.h" ||
        starts_with_any(include.path, {"shared/base/", "shared/plan/", "shared/tensor/",
                                       "shared/model/", "shared/optim/", "shared/metrics/"});
    if (is_core(path) && !for_cores)
      findings.push_back(at(path, include.line, "a core must not include " + include.path));
  }
  return findings;
}

// ---- what the deterministic folders must not name

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
    // Across threads the order of a sum is nobody's; `omp simd` alone fixes it per build.
    if (line.find("#pragma omp") != line.npos && line.find("reduction(") != line.npos &&
        (line.find(" parallel") != line.npos || line.find(" for") != line.npos))
      findings.push_back(
          at(path, number, "a sum over threads has no fixed order: sum fixed chunks"));
  }
  return findings;
}

// ---- third parties stay behind their one module

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
      {{"CLI/"}, {"tools/cli/", "ps/main.cc", "worker/main.cc", "chief/main.cc"}},
      {{"Eigen/", "unsupported/Eigen", "dnnl", "oneapi/dnnl"}, {"shared/model/"}},
      {{"zlib.h"}, {"shared/data/"}},
      {{"zstd.h"}, {"shared/data/"}},
      {{"curl/"}, {"shared/objects/http.cc"}},
      {{"openssl/"}, {"shared/objects/sigv4.cc"}},
      {{"simdjson"}, {"shared/data/json_scan.h"}},
      {{"isa-l", "crc.h"}, {"shared/base/crc32c.cc"}},
      {{"xxhash.h"}, {"shared/checkpoint/checksum.cc", "shared/data/xxh3.cc"}},
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
  // A folder of whoever wrote the line; tests may invent one.
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

// x.cc includes x.h before all else. `exists` tells whether the tree has a file.
Findings check_own_header(std::string_view path, std::string_view text,
                          const std::function<bool(const std::string&)>& exists) {
  if (!path.ends_with(".cc")) return {};
  const std::string header = std::string(path.substr(0, path.size() - 3)) + ".h";
  const auto includes = includes_of(text);
  if (!exists(header) || (!includes.empty() && includes[0].path == header)) return {};
  return {
      at(path, includes.empty() ? 1 : includes[0].line, "its own header is not included first")};
}

// Relative links of a page lead to something.
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

// ---- the checks on small strings

TEST_CASE("an include against the arrows is found", "[tidy]") {
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
  CHECK(including("ps/runtime/a.cc", "ps/core/table.h") == 0);
  CHECK(including("tools/cli/a.cc", "tools/bench/bench.h") == 0);
  CHECK(including("tools/cli/a.cc", "chief/runtime/console.h") == 0);
}

TEST_CASE("a core that includes what does input or output is found", "[tidy]") {
  const auto including = [](const std::string& header) {
    return check_directions("worker/core/a.cc", "#include \"" + header + "\"\n").size();
  };
  CHECK(including("shared/env/clock.h") == 1);
  CHECK(including("shared/transport/transport.h") == 1);
  CHECK(including("shared/data/dataset.h") == 1);
  CHECK(including("shared/wire/codec.h") == 1);
  CHECK(including("shared/job/job_file.h") == 1);
  CHECK(including("shared/checkpoint/manifest.h") == 1);
  CHECK(including("worker/runtime/worker_node.h") == 1);
  CHECK(including("shared/wire/messages.h") == 0);
  CHECK(including("shared/wire/peer_identity.h") == 0);
  CHECK(including("shared/job/job.h") == 0);
  CHECK(including("shared/checkpoint/image.h") == 0);
  CHECK(including("worker/core/events.h") == 0);
}

TEST_CASE("a core that names a clock, a thread or a file is found, a comment that does is not",
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

TEST_CASE("a third party outside its module is found", "[tidy]") {
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
  CHECK(including("chief/main.cc", "CLI/CLI.hpp") == 0);
  CHECK(including("ps/core/a.cc", "Eigen/Core") == 1);
}

TEST_CASE("faults of form are found", "[tidy]") {
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
  const fs::path root = DP_SOURCE_DIR;
  Findings findings;
  std::set<std::string> source_folders;
  size_t files = 0;
  const auto exists = [&](const std::string& path) { return fs::exists(root / path); };
  const auto look_at = [&](const fs::path& file) {
    static const std::set<std::string> kinds = {".h",  ".cc",   ".capnp", ".cmake", ".txt",
                                                ".md", ".toml", ".py",    ".json"};
    const std::string path = file.lexically_relative(root).string();
    if (!kinds.contains(file.extension().string()) || path.find("/golden/") != std::string::npos)
      return;
    const std::string text = downpour::text_of(file);
    ++files;
    const auto add = [&](Findings&& more) {
      findings.insert(findings.end(), more.begin(), more.end());
    };
    add(check_form(path, text));
    add(check_links(path, text, exists));
    if (!path.ends_with(".h") && !path.ends_with(".cc") && !path.ends_with(".capnp")) return;
    add(check_directions(path, text));
    add(check_purity(path, text));
    add(check_third_parties(path, text));
    add(check_own_header(path, text, exists));
    if (!path.starts_with("tests/")) source_folders.insert(folder_of(path));
  };
  downpour::for_each_file(root, [&](const auto&, const fs::path& file) { look_at(file); });
  for (const std::string& folder : source_folders) {
    if (!exists(folder + "/README.md")) findings.push_back(folder + ": no README.md");
  }
  std::string all;
  for (const std::string& finding : findings) all += finding + "\n";
  INFO(all);
  CHECK(findings.empty());
  CHECK(files > 100);  // it looked
}

}  // namespace
