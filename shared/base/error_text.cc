#include "shared/base/error_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "shared/base/str.h"

namespace downpour {
namespace {

constexpr std::array kErrorTexts{
    ErrorText{"DP-1000", "wrong flags or arguments",
              "The command line is not one that this verb understands. `downpour VERB --help` "
              "lists its flags with their\n"
              "defaults and shows examples."},
    ErrorText{"DP-2000", "the job or the environment is wrong",
              "A key of the job file, an override (--set, DOWNPOUR_TABLE__KEY) or an environment "
              "variable has a value that\n"
              "can't work. The message names the place. `downpour train JOB --dry-run` prints the "
              "job in effect with the source\n"
              "of each value; docs/job-file.md lists every key."},
    ErrorText{"DP-2101", "no job file",
              "The job file is not there, can't be read, or is far too large to be one. A data "
              "file may be given instead of a\n"
              "job (`downpour train clicks.tsv`): a job is then made for it and saved in the run "
              "folder."},
    ErrorText{"DP-2102", "not TOML",
              "The job file breaks TOML's rules at the place named. Frequent causes: a string "
              "without quotes, a backslash in\n"
              "double quotes (use 'single quotes'), a table written twice, or a dotted key that "
              "adds to an inline table\n"
              "(`data = { ... }` and later `data.fields = ...`: write all of it one way). A text "
              "with more than 64 levels\n"
              "around a value, or more than 262,144 keys and values, is rejected before it is "
              "parsed."},
    ErrorText{
        "DP-2103", "unknown key",
        "No such key in this table, so that a typing error can't be taken for a default. The hint "
        "names the nearest key,\n"
        "or lists those of the table. Keys of another optimizer or layer type count as unknown."},
    ErrorText{"DP-2104", "a value of the wrong type",
              "The key wants another kind of value, as the message says: 3 is an integer, 3.0 a "
              "number, \"3\" a string, [3] a list.\n"
              "A string made of environment variables (\"${EPOCHS:-3}\") and an override may stand "
              "for any type."},
    ErrorText{"DP-2105", "known, but not in this version",
              "The job file's reference knows this key or value; this version of Downpour has not "
              "built it. It is refused rather\n"
              "than ignored, because the job would mean something else without it. Leave it out or "
              "use what the hint offers."},
    ErrorText{"DP-2106", "a value that can't be right",
              "The value has the right type but lies outside its range, is none of the choices, or "
              "contradicts another key."},
    ErrorText{"DP-2107", "something is missing",
              "A key that has no default is absent: what to read (data.source), what to train "
              "(model.preset or model.layers), a\n"
              "layer's inputs, an output's loss. The hint shows how it is written."},
    ErrorText{"DP-2108", "a name that names nothing, or two things",
              "A column, field, layer or metric is named that is not there, or a name is used "
              "twice. Fields, layers and outputs\n"
              "share one space of names; an output may bear its own layer's name. A run "
              "(\"I1..I13\") needs two names that differ\n"
              "in their final number, or two columns."},
    ErrorText{"DP-2109", "an environment variable is not set",
              "A string of the job file holds ${NAME}, and NAME is not set. Export it, or give a "
              "default: ${NAME:-default}.\n"
              "A plain ${ is written $${."},
    ErrorText{"DP-2110", "the run can't continue with another job",
              "Resuming a run is the default, and this job differs from the saved one in keys "
              "that decide what the saved\n"
              "state means: for the whole run seed, partitions, model and the optimizers' types; "
              "inside an epoch also data,\n"
              "batch_size, drop_remainder, reduction, mode and eval.holdout. Put them back, give "
              "the new job another run_dir, or\n"
              "start anew with --fresh. The data files themselves may not change inside an epoch "
              "either. Epochs, learning rate, eval, cluster and parallelism may "
              "change at any time."},
    ErrorText{"DP-2111", "an override that leads nowhere",
              "The key of --set (or of DOWNPOUR_TABLE__KEY) is not a dotted path into the job: "
              "optimizer.learning_rate,\n"
              "model.layers[1].units, data.fields.\"a name\".type. A list may be extended by one "
              "entry at its end only."},
    ErrorText{
        "DP-2112", "the training data have changed within an epoch",
        "An epoch trains every record of one set of files exactly once, and this run is inside "
        "an epoch: it has begun and not\n"
        "all epochs that it was asked for are in a checkpoint. Other files, or files with other "
        "content, would be records that\n"
        "count twice or never. Restore the files and run the job again, or start anew with "
        "--fresh. Where only the processes of\n"
        "a dead chief hold part of the epoch, ending them drops that part. Data may change "
        "between epochs: let all epochs end,\n"
        "then raise train.epochs."},
    ErrorText{"DP-2401", "a ps has no memory left for its tables",
              "The tables of a ps (rows, optimizer state, index) have reached cluster.ps_memory; "
              "without that key, what cgroup,\n"
              "ulimit and machine leave to it. Nothing of the batch that needed more was applied. "
              "Give the ps more, use more ps on\n"
              "other machines, or make the largest table smaller: a lower dim, fewer hash buckets, "
              "an optimizer with fewer slots.\n"
              "The same command then resumes from the newest checkpoint; cluster.* may change at "
              "any time."},
    ErrorText{
        "DP-2701", "an open port without protection",
        "The endpoint can be reached from other machines, and nothing encrypts or authenticates "
        "what is sent there. Give the process keys (--keys FOLDER), bind\n"
        "127.0.0.1 for processes of one machine, or say --insecure where the network is trusted."},
    ErrorText{
        "DP-2702", "not an endpoint",
        "An endpoint is tcp://HOST:PORT (or HOST:PORT), ipc:///PATH or inproc://NAME. HOST is a "
        "name, an IPv4 address, an\n"
        "IPv6 address in brackets, or, to bind, also an interface (eth0) or *. PORT is 1 to 65535, "
        "or * to bind a free one.\n"
        "One endpoint names one address: lists, source addresses (;) and abstract sockets (@) are "
        "errors."},
    ErrorText{
        "DP-2711", "no keys",
        "Processes that connect over tcp prove who they are by keys, and this process has none, or "
        "has one that the other\n"
        "side does not expect. `downpour keys FOLDER` makes keys; every process of the job takes "
        "--keys FOLDER. A chief\n"
        "without --keys makes them in RUN_DIR/keys, which its ps and workers take as --keys. "
        "--insecure for all of them does\n"
        "without keys, in a network that you trust."},
    ErrorText{
        "DP-2712", "keys that other users can reach",
        "A key folder has the mode 700 and a secret file the mode 600, both owned by the user "
        "that runs the process: anyone\n"
        "who can read a secret key can take its place. Change the mode as the hint says; if "
        "others may have read the key,\n"
        "make a new one (`downpour keys FOLDER --add`) and revoke the old one (`--revoke`)."},
    ErrorText{"DP-2713", "a damaged key, list of keys or role",
              "A key file holds one key of 64 hexadecimal digits, and the list `allowed` a line "
              "ROLE NAME KEY for each key. The\n"
              "role of a key is fixed: a worker's key can't start a ps. Copy the file again, or "
              "make another key with\n"
              "`downpour keys`."},
    ErrorText{"DP-2714", "a port that does not protect itself",
              "Each port is tested with a random key before it serves, and the test did not end "
              "with a refusal. If the port did\n"
              "not answer, something on this machine stands between the process and its own port "
              "(a firewall, a network\n"
              "namespace). If it accepted the key, the installed ZeroMQ is broken: report it."},
    ErrorText{
        "DP-2715", "a key of another role",
        "The list of keys gives each key one role: chief, ps, worker or input. A process acts "
        "only in the role of the key that\n"
        "its connection proved, whatever its messages say. Start it with a key of its role; "
        "`downpour keys FOLDER --list` shows\n"
        "the names and roles, and `downpour keys FOLDER --add ROLE:NAME` makes another key. If "
        "you did not start such a process,\n"
        "someone holds a key of this job: `downpour keys FOLDER --revoke NAME`."},
    ErrorText{
        "DP-2721", "a symbolic link in a run folder",
        "Downpour follows no symbolic link below a run folder. Through a link, another user who "
        "can write to the run folder could\n"
        "make Downpour overwrite or remove any file of yours. Remove the link that the message "
        "names. The run folder itself may be\n"
        "a link, and a disk may be mounted in it."},
    ErrorText{
        "DP-2722", "a folder that is not below the run folder",
        "A ps writes and reads images only below the run folder, which holds a file `run` with "
        "the id of the chief's run. Mount\n"
        "the run folder under the same path on the machines of the chief and of all ps. If the "
        "folder is another one than you\n"
        "expect, another process may act as the chief: use keys, and revoke those that others "
        "hold."},
    ErrorText{"DP-3000", "bad data",
              "A file or a record is not what the job says. The message names file and line and "
              "shows the text. Correct the file\n"
              "or the job's data.fields; or set data.bad_records = \"skip\", with "
              "data.bad_records_max as a limit: skipped records\n"
              "are counted in the account."},
    ErrorText{"DP-3001", "no input",
              "An input file is not there, a glob matches nothing, or a file is empty. Relative "
              "paths start at the job file's\n"
              "folder."},
    ErrorText{"DP-3401", "a loss or a gradient is not finite",
              "A batch's loss, or a gradient of it, is infinite or NaN; nothing of it was applied. "
              "Where the message says that a\n"
              "variable holds such values already, the model has diverged: resume from an earlier "
              "checkpoint with a lower\n"
              "optimizer.learning_rate. Otherwise look at the records named (`downpour explain "
              "FILE:RECORD`): huge inputs want a\n"
              "transform (log1p, clip, standardize). train.on_nan = \"skip\" leaves such batches "
              "out and counts their records as\n"
              "quarantined."},
    ErrorText{"DP-3402", "a batch that fails again and again",
              "Workers died or failed at the same batch several times in a row, and nothing of its "
              "shard moved on meanwhile. Look at\n"
              "the records named, and at the workers' logs in the run folder. train.quarantine = "
              "true leaves such a batch out, after\n"
              "as many attempts, and counts its records as quarantined; a batch that fails though "
              "it is quarantined, or more than\n"
              "256 of them, fail the job all the same."},
    ErrorText{"DP-4000", "a peer can't be used",
              "A process of the cluster can't be reached, does not answer in time, or is of "
              "another version. Look at its log in\n"
              "the run folder, at host and port, and whether a firewall stands between. All "
              "processes need the same version."},
    ErrorText{"DP-4001", "bytes that break the protocol",
              "A message from a peer is damaged or is none of Downpour's: some other program on "
              "the port, or a process of another\n"
              "version. The message is dropped and counted; nothing of it was applied."},
    ErrorText{"DP-4002", "peers lost",
              "Too many processes are gone for the job to continue. The run folder holds the last "
              "checkpoint: run the same command\n"
              "again. Exit status 180: worth trying again."},
    ErrorText{"DP-4003", "another chief runs the job",
              "A run folder belongs to one chief at a time; the message says on which host and in "
              "which process. Wait for it, or end\n"
              "it: the lock goes with the process. Where it hangs and can't be ended, --takeover "
              "takes its place; if it ever wakes,\n"
              "it finds the newer chief and stops. Two jobs need two folders (run_dir)."},
    ErrorText{"DP-4004", "a process ends again and again",
              "A ps, worker or input process of this machine was started again cluster.restarts "
              "times in a row, and each time it\n"
              "ended before the job got further than it had been. The message has its last line, "
              "the log named has the rest. Where a\n"
              "signal 9 ended it the machine was probably out of memory: set cluster.ps_memory, or "
              "use more machines. The run folder\n"
              "holds the last checkpoint; the same command resumes from there."},
    ErrorText{"DP-5000", "an output can't be made",
              "A file or folder can't be created: the folder is not there, or something else has "
              "its name."},
    ErrorText{"DP-5001", "reading or writing failed",
              "The operating system reported an error: a full disk, a lost mount, a failing "
              "device. What was published before is\n"
              "whole."},
    ErrorText{"DP-5002", "no permission",
              "The user that runs Downpour may not read or write the path named."},
    ErrorText{"DP-5003", "no folder for sockets",
              "`downpour train` with several local processes connects them by Unix sockets in a "
              "private folder. It is made in\n"
              "$TMPDIR, or in /tmp where TMPDIR is not set or can't be used. The message gives the "
              "reason for each. A socket's path\n"
              "has at most 107 bytes, so a long TMPDIR can't be used. `--transport tcp` needs no "
              "such folder."},
    ErrorText{"DP-6000", "not in this version",
              "A file or a peer asks for a version or a feature that this build has not. Use the "
              "version that wrote it, or a newer\n"
              "one."},
    ErrorText{"DP-8000", "stopped by a signal",
              "Ctrl-C or SIGTERM: the state was saved, and the same command goes on from there. A "
              "second signal exits at once."},
    ErrorText{"DP-9000", "a bug",
              "Downpour came into a state that must not be. Please report it with the message, the "
              "job, and the output of\n"
              "`downpour version`."},
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
