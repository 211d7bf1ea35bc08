#include "shared/base/error_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "shared/base/str.h"

namespace downpour {
namespace {

constexpr std::array kErrorTexts{
    ErrorText{"DP-1000", "wrong flags or arguments",
              "The command line is not valid for this verb. `downpour VERB --help` lists its flags "
              "with their\ndefaults and shows examples."},
    ErrorText{"DP-2000", "the job or the environment is wrong",
              "A key of the job file, an override (--set, DOWNPOUR_TABLE__KEY) or an environment "
              "variable has an invalid\nvalue. The message names the place. `downpour train JOB "
              "--dry-run` prints the effective job with the source\nof each value; "
              "docs/job-file.md lists every key."},
    ErrorText{"DP-2101", "no job file",
              "The job file does not exist, can't be read, or is too large for a job file. You can "
              "give a data file instead of a\njob (`downpour train clicks.tsv`): Downpour then "
              "generates a job for it and saves the job in the run folder."},
    ErrorText{
        "DP-2102", "not TOML",
        "The job file is not valid TOML at the place named. Frequent causes: a string without "
        "quotes, a backslash in\ndouble quotes (use 'single quotes'), a table defined twice, or a "
        "dotted key that extends an inline table\n(`data = { ... }` and later `data.fields = ...`: "
        "use one of the two forms). A file in which a value is nested\nmore than 64 levels deep, "
        "or with more than 262,144 keys and values, is rejected before it is parsed."},
    ErrorText{
        "DP-2103", "unknown key",
        "The table does not have this key. Downpour rejects unknown keys, because a misspelled key "
        "would otherwise\nsilently keep its default. The hint names the nearest key, or lists the "
        "keys of the table. Keys of another\noptimizer or layer type count as unknown."},
    ErrorText{
        "DP-2104", "a value of the wrong type",
        "The value has a different type than the key requires. 3 is an integer, 3.0 a number, "
        "\"3\" a string, [3] a list.\nA string that contains environment variables "
        "(\"${EPOCHS:-3}\") and the value of an override are converted to the\ntype of the key."},
    ErrorText{"DP-2105", "known, but not in this version",
              "The job file reference describes this key or value, but this version of Downpour "
              "does not implement it. It is\nrejected and not ignored, because the job would mean "
              "something else without it. Remove it, or use what the hint\nsuggests."},
    ErrorText{"DP-2106", "an invalid value",
              "The value has the right type, but is out of range, is not one of the choices, or "
              "contradicts another key."},
    ErrorText{
        "DP-2107", "a required key is missing",
        "A required key is missing: what to read (data.source), what to train (model.preset or "
        "model.layers), a\nlayer's inputs, or an output's loss. The hint shows an example."},
    ErrorText{"DP-2108", "an unknown or ambiguous name",
              "The job refers to a column, field, layer or metric that does not exist, or uses a "
              "name twice. Fields, layers and\noutputs share one namespace; an output may have the "
              "name of its own layer. A name range (\"I1..I13\") consists of\ntwo names that "
              "differ only in their final number, or of two columns."},
    ErrorText{"DP-2109", "an environment variable is not set",
              "A string of the job file contains ${NAME}, and NAME is not set. Export it, or give "
              "a default: ${NAME:-default}.\nWrite $${ for a literal ${."},
    ErrorText{"DP-2110", "the run can't continue with another job",
              "Resuming a run is the default, and this job differs from the saved one in keys that "
              "decide what the saved\nstate means. seed, partitions, model and the optimizers' "
              "types are fixed for the whole run. data, batch_size,\ndrop_remainder, reduction, "
              "mode, eval.holdout and the data files are fixed inside an epoch. Restore them, give "
              "the\nnew job another run_dir, or start a new run with --fresh. Epochs, learning "
              "rate, eval, cluster and parallelism may\nchange at any time."},
    ErrorText{"DP-2111", "an override of a key that does not exist",
              "The key of --set (or of DOWNPOUR_TABLE__KEY) is not a dotted path into the job. "
              "Valid paths are, for example,\noptimizer.learning_rate, model.layers[1].units and "
              "data.fields.\"a name\".type. An override can append one entry to\na list."},
    ErrorText{
        "DP-2112", "the training data are not those of the run",
        "An epoch trains every record of one set of files exactly once, and this run is inside an "
        "epoch: it has started, and\nnot all requested epochs are in a checkpoint. With other "
        "files or other content, some records would count twice or\nnever. Restore the files and "
        "run the job again, or start a new run with --fresh. If only processes of an earlier "
        "chief\nhold a part of the epoch, stop these processes to discard that part. The data may "
        "change between epochs: let all\nepochs finish, then raise train.epochs. If all epochs are "
        "trained already, nothing would be trained on the new data."},
    ErrorText{"DP-2401", "a ps has no memory left for its tables",
              "The tables of a ps (rows, optimizer state, index) have reached cluster.ps_memory. "
              "Without that key, the limit is the\nmemory that the cgroup, ulimit and the machine "
              "leave for the ps. Nothing of the batch that needed more memory was\napplied. Raise "
              "the limit, use more ps on other machines, or make the largest table smaller: a "
              "lower dim, fewer hash\nbuckets, or an optimizer with fewer slots. The same command "
              "then resumes from the newest checkpoint; cluster.* may\nchange at any time."},
    ErrorText{"DP-2701", "an open port without protection",
              "The endpoint can be reached from other machines, and its connections are neither "
              "encrypted nor authenticated. Give\nthe process keys (--keys FOLDER), bind 127.0.0.1 "
              "if all processes run on one machine, or use --insecure if you trust\nthe network."},
    ErrorText{
        "DP-2702", "not an endpoint",
        "An endpoint is tcp://HOST:PORT (or HOST:PORT), ipc:///PATH or inproc://NAME. HOST is a "
        "name, an IPv4 address, an\n"
        "IPv6 address in brackets, or, to bind, also an interface (eth0) or *. PORT is 1 to 65535, "
        "or * to bind a free one.\n"
        "One endpoint names one address: lists, source addresses (;) and abstract sockets (@) are "
        "errors."},
    ErrorText{"DP-2711", "no accepted key",
              "Processes that connect over tcp authenticate each other by keys. This process has "
              "no key, or has a key that the other\nside does not accept. `downpour keys FOLDER` "
              "creates keys; start every process of the job with --keys FOLDER. A chief\nwithout "
              "--keys creates them in RUN_DIR/keys; give its ps and workers --keys RUN_DIR/keys. "
              "In a network that you trust,\nyou can start all processes with --insecure instead."},
    ErrorText{
        "DP-2712", "keys that other users can read or change",
        "A key folder must have the mode 700 and a secret key file the mode 600, and the user that "
        "runs the process must own\nboth: anyone who can read a secret key can act as its process. "
        "Change the mode as the hint says. If others may have\nread the key, create a new one "
        "(`downpour keys FOLDER --add`) and revoke the old one (`--revoke`)."},
    ErrorText{
        "DP-2713", "an invalid key, list of keys or role",
        "A key file contains one key of 64 hexadecimal digits, and the list `allowed` contains a "
        "line ROLE NAME KEY for each\nkey. The role of a key is fixed: a worker's key can't start "
        "a ps. Copy the file again, or create another key with\n`downpour keys`."},
    ErrorText{"DP-2714", "a port that does not protect itself",
              "Each port is tested with a random key before it serves, and the port did not reject "
              "that key. If the port did\nnot answer, something on this machine blocks connections "
              "to it (a firewall, a network namespace). If it accepted\nthe key, the installed "
              "ZeroMQ is broken: report it."},
    ErrorText{"DP-2715", "a key of another role",
              "The list of keys gives each key one role: chief, ps, worker or input. A process may "
              "act only in the role of the key\nthat authenticated its connection, whatever its "
              "messages say. Start it with a key of its role; `downpour keys FOLDER\n--list` shows "
              "the names and roles, and `downpour keys FOLDER --add ROLE:NAME` creates another "
              "key. If you did not\nstart this process, someone else has a key of this job: "
              "`downpour keys FOLDER --revoke NAME`."},
    ErrorText{
        "DP-2721", "a symbolic link in a run folder",
        "Downpour follows no symbolic link below a run folder. Through a link, another user who "
        "can write to the run folder could\n"
        "make Downpour overwrite or remove any file of yours. Remove the link that the message "
        "names. The run folder itself may be\n"
        "a link, and a disk may be mounted in it."},
    ErrorText{
        "DP-2722", "a folder that is not below the run folder",
        "A ps writes and reads images only below the run folder, which contains a file `run` with "
        "the id of the chief's run.\nMount the run folder under the same path on the machines of "
        "the chief and of all ps. If the folder is not the one that\nyou expect, another process "
        "may act as the chief: use keys, and revoke the keys that others may have."},
    ErrorText{
        "DP-3000", "bad data",
        "A file or a record does not match the job. The message names the file and the line and "
        "shows the text. Correct the\nfile or the job's data.fields; or set data.bad_records = "
        "\"skip\", with data.bad_records_max as a limit. The account\ncounts skipped records."},
    ErrorText{"DP-3001", "no input",
              "An input file does not exist, or a glob matches no file. Relative paths start at "
              "the job file's folder."},
    ErrorText{
        "DP-3401", "a loss or a gradient is not finite",
        "The loss or a gradient of a batch is infinite or NaN; nothing of the batch was applied. "
        "If the message says that a\nvariable already contains such values, the model has "
        "diverged: resume from an earlier checkpoint with a lower\noptimizer.learning_rate. "
        "Otherwise look at the records named (`downpour explain FILE:RECORD`): very large inputs "
        "need a\ntransform (log1p, clip, standardize). train.on_nan = \"skip\" leaves such batches "
        "out and counts their records as\nquarantined."},
    ErrorText{"DP-3402", "a batch fails at every attempt",
              "Workers died or failed at the same batch several times in a row, and its shard made "
              "no progress in between. Look at\nthe records named, and at the workers' logs in the "
              "run folder. train.quarantine = true leaves such a batch out after\nthe same number "
              "of attempts and counts its records as quarantined. The job still fails if a batch "
              "fails although it is\nquarantined, or if more than 256 batches need quarantine."},
    ErrorText{"DP-4000", "a peer is not available",
              "A process of the cluster can't be reached, does not answer in time, or has another "
              "version. Check its log in the run\nfolder, its host and port, and whether a "
              "firewall blocks the connection. All processes need the same version."},
    ErrorText{"DP-4001", "a message that violates the protocol",
              "A message from a peer is damaged or is not a Downpour message. The peer may be "
              "another program, or a process of\nanother version. The message is dropped and "
              "counted; nothing of it was applied."},
    ErrorText{"DP-4002", "peers lost",
              "The job can't continue, because too many of its processes ended or stopped "
              "answering. The run folder contains the last\ncheckpoint: run the same command "
              "again. Exit status 180 means that a retry can succeed."},
    ErrorText{"DP-4003", "another chief runs the job",
              "A run folder belongs to one chief at a time; the message names the host and the "
              "process of that chief. Wait for it, or\nstop it: the lock ends with the process. If "
              "that chief hangs and can't be stopped, replace it with --takeover; if it\nrecovers "
              "later, it finds the newer chief and stops. Two jobs need two folders (run_dir)."},
    ErrorText{"DP-4004", "a process ends after every restart",
              "A ps, worker or input process of this machine was restarted cluster.restarts times "
              "in a row, and each time it ended\nbefore the job made progress. The message shows "
              "the last line of its log and names the log. If signal 9 ended the\nprocess, the "
              "machine was probably out of memory: set cluster.ps_memory, or use more machines. "
              "The run folder contains\nthe last checkpoint; the same command resumes from there."},
    ErrorText{"DP-5000", "an output can't be created",
              "A file or folder can't be created: its parent folder does not exist, or another "
              "file has its name."},
    ErrorText{"DP-5001", "reading or writing failed",
              "The operating system reported an error: a full disk, a lost mount, a failing "
              "device. Checkpoints that were published\nbefore are complete."},
    ErrorText{"DP-5002", "no permission",
              "The user that runs Downpour may not read or write the path named."},
    ErrorText{
        "DP-5003", "no folder for sockets",
        "`downpour train` with several local processes connects them by Unix sockets in a private "
        "folder. The folder is created\nin $TMPDIR, or in /tmp if TMPDIR is not set or can't be "
        "used. The message gives the reason for each. The path of a\nsocket has at most 107 bytes, "
        "so a long TMPDIR can't be used. `--transport tcp` needs no such folder."},
    ErrorText{"DP-6000", "not in this version",
              "A file or a peer requires a version or a feature that this build does not support. "
              "Use the version that wrote the file,\nor a newer one."},
    ErrorText{"DP-8000", "stopped by a signal",
              "Ctrl-C or SIGTERM: the state was saved, and the same command resumes from there. A "
              "second signal exits at once."},
    ErrorText{"DP-9000", "a bug",
              "Downpour reached a state that should be impossible. Please report it with the "
              "message, the job, and the output of\n`downpour version`."},
};

constexpr std::string_view general_id(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "DP-1000";
    case ErrorCode::kConfig:
      return "DP-2000";
    case ErrorCode::kBadData:
      return "DP-3000";
    case ErrorCode::kNoInput:
      return "DP-3001";
    case ErrorCode::kUnavailable:
      return "DP-4000";
    case ErrorCode::kMalformed:
      return "DP-4001";
    case ErrorCode::kPeersLost:
      return "DP-4002";
    case ErrorCode::kCannotCreate:
      return "DP-5000";
    case ErrorCode::kIo:
      return "DP-5001";
    case ErrorCode::kPermission:
      return "DP-5002";
    case ErrorCode::kUnsupported:
      return "DP-6000";
    case ErrorCode::kInterrupted:
    case ErrorCode::kTerminated:
      return "DP-8000";
    case ErrorCode::kBug:
      return "DP-9000";
  }
  return "DP-9000";
}

/// Returns the length in bytes of the UTF-8 character at the start of `text`, which is not empty.
/// Returns 0 if the bytes are not valid UTF-8 or are a control character.
size_t utf8_bytes(std::string_view text) {
  const auto lead = uint8_t(text[0]);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  uint32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((uint8_t(text[i]) & 0xc0) != 0x80) return 0;
    code = code << 6 | (uint8_t(text[i]) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[bytes] || code > 0x10ffff || surrogate ? 0 : bytes;
}

/// Removes the first character from `text` and returns it in printable form.
std::string take_printable(std::string_view& text) {
  constexpr char kHex[] = "0123456789abcdef";
  const size_t bytes = utf8_bytes(text);
  const auto byte = uint8_t(text[0]);
  std::string shown =
      bytes > 0 ? std::string(text.substr(0, bytes)) : str("\\x", kHex[byte >> 4], kHex[byte & 15]);
  text.remove_prefix(std::max<size_t>(bytes, 1));
  return shown;
}

/// Returns the text in printable form, cut to `bytes_max` bytes. Characters in `kept` stay
/// unchanged.
std::string cut_printable(std::string_view text, std::string_view kept, size_t bytes_max) {
  constexpr std::string_view kCut = "...";
  std::string shown;
  size_t fits = 0;  // length of the longest prefix of `shown` that leaves room for kCut
  while (!text.empty() && shown.size() <= bytes_max) {
    if (kept.find(text.front()) != kept.npos) {
      shown += text.front();
      text.remove_prefix(1);
    } else {
      shown += take_printable(text);
    }
    if (shown.size() + kCut.size() <= bytes_max) fits = shown.size();
  }
  if (shown.size() > bytes_max) shown.replace(fits, std::string::npos, kCut);
  return shown;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    if (text.front() == '\n') {
      shown += "\n       ";  // aligned with the text after "error: "
      text.remove_prefix(1);
    } else if (text.front() == '\t') {
      shown += '\t';
      text.remove_prefix(1);
    } else {
      shown += take_printable(text);
    }
  }
  return shown;
}

std::string printable_line(std::string_view text, size_t bytes_max) {
  return cut_printable(text, "", bytes_max);
}

std::string printable_lines(std::string_view text, size_t bytes_max) {
  return cut_printable(text, "\n\t", bytes_max);
}

std::span<const ErrorText> error_texts() { return kErrorTexts; }

const ErrorText* find_error_text(std::string_view id) {
  const auto found = std::find_if(kErrorTexts.begin(), kErrorTexts.end(),
                                  [&](const ErrorText& text) { return text.id == id; });
  return found == kErrorTexts.end() ? nullptr : &*found;
}

std::string error_id(const Error& error) {
  return error.id.empty() ? std::string(general_id(error.code)) : error.id;
}

std::string format_error(const Error& error, bool color) {
  const auto paint = [&](const char* code, std::string_view text) {
    return color ? str("\x1b[", code, "m", text, "\x1b[0m") : std::string(text);
  };
  std::string shown = str(paint("1;31", "error:"), " ", printable(error.what), " ",
                          paint("2", str("[", error_id(error), "]")), "\n");
  if (!error.where.empty()) shown += str(paint("1", "where:"), " ", printable(error.where), "\n");
  if (!error.hint.empty()) shown += str(paint("1;32", "hint: "), " ", printable(error.hint), "\n");
  return shown;
}

int report_error(const Error& error) {
  std::fputs(format_error(error, false).c_str(), stderr);
  return exit_code(error.code);
}

Result<std::string> explain_error(std::string_view id) {
  std::string wanted(id);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  if (!wanted.starts_with("DP-")) wanted = "DP-" + wanted;
  if (const ErrorText* found = find_error_text(wanted)) {
    return str(found->id, ": ", found->title, "\n\n", found->text, "\n");
  }
  std::string hint = "ids are";
  for (const ErrorText& text : kErrorTexts) hint += str(" ", text.id);
  return Error{
      ErrorCode::kUsage, str("no error has the id `", id, "`"), {}, std::move(hint), "DP-1000"};
}

}  // namespace downpour
