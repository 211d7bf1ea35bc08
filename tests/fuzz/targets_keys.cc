// Inputs that decide which process may connect: key files, lists of keys, ZAP requests, endpoints.
#include <algorithm>
#include <memory>
#include <sys/stat.h>

#include "shared/base/plain_name.h"
#include "shared/transport/address.h"
#include "shared/transport/endpoint.h"
#include "shared/transport/key_folder.h"
#include "shared/transport/zap.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/reading.h"
#include "tests/fuzz/target.h"

namespace downpour::fuzz {
namespace {

using namespace std::string_view_literals;

transport::Key random_key(Rng& rng) {
  transport::Key key{};
  for (uint8_t& byte : key) byte = uint8_t(rng.below(256));
  return key;
}

// ---- key files and lists

constexpr std::string_view kKeyTokens[] = {
    "chief",
    "ps",
    "worker",
    "input",
    "admin",
    " ",
    "\t",
    "\r\n",
    "\n",
    "#",
    "..",
    "/",
    ".key",
    "-",
    "\0"sv,
    "\xff",
    "0000000000000000000000000000000000000000000000000000000000000000"};

std::string list_seed(Rng& rng) {
  std::string text;
  for (uint64_t n = rng.below(12); n > 0; --n) {
    const auto role = wire::Role(rng.below(4));
    text += str(one_in(rng, 8) ? "# " : "", wire::role_text(role), " ", wire::role_text(role), "-",
                n, " ", transport::hex_of(random_key(rng)), one_in(rng, 9) ? "\r\n" : "\n");
  }
  return text;
}

std::string check_list(const std::string& text) {
  const auto list = transport::AllowList::parse(text, "allowed");
  if (!list) {
    if (list.error().code != ErrorCode::kConfig) return "an error that is no kConfig";
    return list.error().where.starts_with("allowed:") ? "" : "an error without its line";
  }
  if (list->keys().size() > transport::AllowList::kKeysMax) return "more keys than there may be";
  for (const transport::AllowedKey& key : list->keys()) {
    if (!is_plain_name(key.name)) return "a name that is not plain";
    if (list->find(key.key) == nullptr || list->find_name(key.name) == nullptr)
      return "a key of the list is not found";
    if (text.find(key.name) == std::string::npos) return "a name that the text does not have";
  }
  const auto again = transport::AllowList::parse(list->text(), "allowed");
  if (!again) return str("what it is written as can't be read: ", again.error().what);
  return again->keys() == list->keys() ? "" : "what it is written as is another list";
}

std::string check_key_file(const std::string& path, const std::string& text) {
  write_file(path, text);
  if (::chmod(path.c_str(), 0600) != 0) return "chmod failed";
  const auto pair = transport::read_key_file(path);
  if (!pair) return pair.error().where == path ? "" : "an error that does not name the file";
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return char(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  if (lower.find(transport::hex_of(pair->secret_key)) == std::string::npos)
    return "a key that the file does not hold";
  return "";
}

Target keys_target(const std::string& folder) {
  const std::string path = folder + "/fuzzed.key";
  return {.name = "keys",
          .make =
              [](Rng& rng) {
                const bool one = one_in(rng, 3);
                std::string text = one ? str("# a key\n", transport::hex_of(random_key(rng)), "\n")
                                       : list_seed(rng);
                if (!one_in(rng, 10)) mutate(text, list_seed(rng), kKeyTokens, rng);
                return Input{.knobs = one ? 1ULL : 0ULL, .files = {std::move(text)}};
              },
          .run =
              [=](const Input& input) {
                return input.knobs == 1 ? check_key_file(path, input.files[0])
                                        : check_list(input.files[0]);
              },
          .memory_bytes_max = 64 * kMiB};
}

// ---- ZAP: each file is a frame

constexpr std::string_view kZapTokens[] = {"1.0",    "CURVE", "PLAIN", "NULL",
                                           "GSSAPI", "200",   "\0"sv};

transport::Key known_key() {
  transport::Key key{};
  key.fill(7);
  return key;
}

std::string key_bytes(const transport::Key& key) {
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

std::string check_zap(const std::vector<std::string>& files) {
  const std::vector<std::string_view> frames(files.begin(), files.end());
  transport::AllowList allowed;
  allowed.add({wire::Role::kWorker, "worker", known_key()});
  const auto request = transport::parse_zap_request(frames);
  const std::string id = frames.size() > 1 ? files[1] : "";
  std::vector<std::vector<std::string>> refusals = {transport::refuse_zap(frames)};
  if (request) {
    if (frames.size() != 7 || frames[0] != "1.0" || frames[5] != "CURVE")
      return "it is taken, and is no request of CURVE";
    if (frames[6] != key_bytes(request->key)) return "another key was taken";
    refusals.push_back(transport::answer_zap(*request, nullptr));
    const std::vector<std::string> answer = transport::answer_zap(*request, &allowed);
    const bool known = request->key == known_key();
    if (transport::is_admitted(answer) != known) return "admitted is who is not on the list";
    if (known && answer.at(4) != transport::hex_of(known_key())) return "another User-Id";
    if (!known) refusals.push_back(answer);
  } else if (request.error().code != ErrorCode::kMalformed) {
    return "an error that is no kMalformed";
  }
  for (const std::vector<std::string>& answer : refusals) {
    if (transport::is_admitted(answer)) return "a refusal admits";
    if (answer.size() != 6 || answer[0] != "1.0" || answer[1] != id || answer[2] != "400" ||
        !answer[4].empty()) {
      return "a refusal that is no answer of ZAP";
    }
  }
  return "";
}

Target zap_target() {
  return {.name = "zap",
          .make =
              [](Rng& rng) {
                Input input{.files = {"1.0", str(rng.below(9)), str("domain-", rng.below(9)),
                                      "10.0.0.1", "", "CURVE",
                                      key_bytes(one_in(rng, 2) ? known_key() : random_key(rng))}};
                for (uint64_t n = rng.below(4); n > 0; --n) {
                  std::string& frame = input.files[size_t(rng.below(input.files.size()))];
                  mutate(frame, std::string(one_of(Dictionary(kZapTokens), rng)), kZapTokens, rng);
                }
                if (one_in(rng, 6)) input.files.resize(rng.below(9));
                if (one_in(rng, 6)) input.files.insert(input.files.begin(), std::string());
                return input;
              },
          .run = [](const Input& input) { return check_zap(input.files); },
          .memory_bytes_max = 64 * kMiB};
}

// ---- endpoints

constexpr std::string_view kEndpoints[] = {"tcp://127.0.0.1:7000",
                                           "tcp://[::1]:7000",
                                           "tcp://*:*",
                                           "host.example:65535",
                                           "ipc:///tmp/folder/chief",
                                           "inproc://name",
                                           "127.0.0.1:7000?key="
                                           "0123456789abcdef0123456789abcdef"
                                           "0123456789abcdef0123456789abcdef"};
constexpr std::string_view kEndpointTokens[] = {
    "tcp://", "ipc://", "inproc://", "udp://", ":",   "::",    "[",     "]",     "*",   "@",
    ";",      "?key=",  "?",         "/",      "//",  "..",    "%eth0", "65536", "0",   "-1",
    "\0"sv,   "\xff",   " ",         "eth0",   "0x7", "00007", ".",     "127.1", "1e9", "\n"};

std::string check_endpoint(const std::string& text) {
  const auto split = transport::split_key(text);
  if (!split && split.error().code != ErrorCode::kConfig) return "split: no kConfig";
  if (split && split->key) {
    const auto again = transport::split_key(transport::with_key(split->endpoint, *split->key));
    if (!again || again->endpoint != split->endpoint || again->key != split->key)
      return "joined and split again it is another";
  }
  for (const bool wildcard : {false, true}) {
    const auto address = transport::parse_address(text, wildcard);
    if (!address) continue;
    if (text.find('\0') != std::string::npos) return "an address with a zero byte is taken";
    const bool is_tcp = address->scheme == transport::Scheme::kTcp;
    if (is_tcp && text.find_first_of(";@") != std::string::npos)
      return "an extension of libzmq is taken";
    if (!wildcard && is_tcp && (address->host == "*" || address->port == 0))
      return "a wildcard is taken where none may be";
    if (is_tcp && address->host.empty()) return "an address without a host is taken";
  }
  if (const auto whole = transport::normalize_endpoint(text)) {
    const auto twice = transport::normalize_endpoint(*whole);
    if (!twice || *twice != *whole) return "made normal twice it is another";
  }
  // A peer may choose only a socket in the folder of the chief's socket.
  if (transport::check_peer_endpoint(text, "ipc:///run/dp/chief")) {
    const std::string_view prefix = "ipc:///run/dp/";
    if (text.starts_with("inproc://")) return "inproc is taken beside ipc";
    if (text.starts_with("ipc://") &&
        (!text.starts_with(prefix) || text.find('/', prefix.size()) != std::string::npos ||
         text.substr(prefix.size()) == ".." || text.substr(prefix.size()) == "." ||
         text.size() == prefix.size())) {
      return "a path outside of the chief's folder is taken";
    }
  }
  (void)transport::advertised_endpoint("tcp://0.0.0.0:7000", text);
  return "";
}

Target endpoint_target() {
  return {.name = "endpoint",
          .make =
              [](Rng& rng) {
                std::string text(one_of(Dictionary(kEndpoints), rng));
                if (one_in(rng, 4)) text = str("ipc:///run/dp/", one_in(rng, 2) ? "ps-0.1" : text);
                if (!one_in(rng, 20))
                  mutate(text, std::string(one_of(Dictionary(kEndpoints), rng)), kEndpointTokens,
                         rng);
                return Input{.files = {std::move(text)}};
              },
          .run = [](const Input& input) { return check_endpoint(input.files[0]); },
          .memory_bytes_max = 64 * kMiB};
}

}  // namespace

void add_key_targets(const std::string& folder, std::vector<Target>& out) {
  out.push_back(keys_target(folder));
  out.push_back(zap_target());
  out.push_back(endpoint_target());
}

}  // namespace downpour::fuzz
