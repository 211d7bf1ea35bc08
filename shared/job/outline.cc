#include "shared/job/outline.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/number_text.h"
#include "shared/base/str.h"
#include "shared/job/file_job.h"
#include "shared/job/job_tree.h"
#include "shared/job/preset.h"

namespace downpour {
namespace {

struct Note {
  std::string_view key;
  std::string_view text;
};

// What the keys do that job_for_file() sets, or where their values come from.
constexpr std::array kNotes = {
    Note{"run_dir", "checkpoints, history and the effective job; relative to this file"},
    Note{"data.source", "a path relative to this file; a glob or a list is possible, too"},
    Note{"data.format", "detected"},
    Note{"data.record", "detected"},
    Note{"data.columns", "from the header, or chosen if the file has none"},
    Note{"data.header", "detected: the first line has the names of the columns"},
    Note{"data.skip_lines", "detected: lines before the header"},
    Note{"data.delimiter", "detected"},
    Note{"data.quoted_newlines", "detected: line breaks in quoted values"},
    Note{"data.trim", "detected: blanks around values"},
    Note{"data.missing", "detected: texts that mean that a value is missing"},
    Note{"data.filter", "leaves out the records without a target"},
    Note{"data.interleave",
         "ranges of the file that a shard joins, because files are often sorted"},
    Note{"model.preset", "chosen from the types of the fields (docs/models.md)"},
    Note{"model.target", "the field to predict"},
    Note{"model.units", "hidden layers"},
    Note{"model.dim", "weights of each key"},
    Note{"model.dropout", "share of the units that a training step sets to 0"},
    Note{"model.bins", "intervals of the encoding of each number"},
    Note{"model.loss", "chosen from the values of the target"},
    Note{"model.classes", "detected: classes of the target"},
    Note{"model.offset", "\"auto\": from the mean of the target in the training records"},
    Note{"optimizer.type", "chosen for the preset"},
    Note{"optimizer.schedule", "lowers the rate when the evaluation loss stops improving"},
    Note{"optimizer.rules", "optimizers of single variables"},
    Note{"train.epochs", "passes over the data; early stopping usually ends the training before"},
    Note{"train.batch_size", "records per gradient, chosen from the size of the file"},
    Note{"train.in_flight", "batches that a worker trains at the same time"},
    Note{"train.reduction", "the gradient of a batch is the sum of those of its records"},
    Note{"eval.holdout", "share of the records that is only evaluated, after each epoch"},
    Note{"eval.keep_best", "the result is the epoch with the best evaluation"},
    Note{"eval.early_stop", "evaluations in a row without a better one; then training ends"},
};

constexpr std::string_view kFieldsNote =
    "# How each column is read: its type, the text of a missing value, its transforms.\n";

using Values = std::vector<std::pair<std::string, std::string>>;

// The lines of a table of the job file. Its own tables are inline.
struct Section {
  std::string name;
  Values lines;
};

/// Returns the job whose values an outline leaves out.
Job plain_job(const Job& job) {
  Job plain;
  plain.data.interleave.cycle = 2;  // with 1 its table is not printed
  plain.model.options.own_optimizer = job.model.options.own_optimizer;
  plain.optimizer = optimizer_defaults(job.optimizer.type);
  for (const OptimizerRule& rule : job.optimizer_rules)
    plain.optimizer_rules.push_back({"", optimizer_defaults(rule.optimizer.type)});
  return plain;
}

bool always_shown(std::string_view table, std::string_view key) {
  return table.starts_with("optimizer") && (key == "type" || key == "learning_rate");
}

std::string inline_table(const Values& values) {
  std::string text;
  for (const auto& [key, value] : values)
    text += str(text.empty() ? "{ " : ", ", key, " = ", value);
  return text + " }";
}

/// Adds a table that belongs to a section: a field, an element of a list, or a table in it.
void add_inner(const PrintedTable& table, const Values& values, Section& section) {
  const std::string name = table.header.substr(section.name.size() + 1);
  if (!table.path.ends_with(']')) {
    section.lines.emplace_back(name, inline_table(values));
  } else if (table.path.ends_with("[0]")) {
    section.lines.emplace_back(name, str("[", inline_table(values), "]"));
  } else {
    std::string& list = section.lines.back().second;
    list = str(list.substr(0, list.size() - 1), ", ", inline_table(values), "]");
  }
}

/// Removes the hash of texts, which complete_job() adds to a field without ops.
void remove_added_ops(Job& job) {
  for (FieldSpec& field : job.data.fields) {
    if (field.type == FieldType::kString && !field.is_label() &&
        field.transform == std::vector<TransformSpec>{ops::Hash{}})
      field.transform.clear();
  }
}

std::vector<Section> sections_of(const Job& job) {
  std::map<std::string, std::map<std::string, std::string>> plain;
  for (const PrintedTable& table : print_tables(plain_job(job), /*compress=*/true))
    plain[table.path].insert(table.values.begin(), table.values.end());
  std::vector<Section> sections;
  for (const PrintedTable& table : print_tables(job, /*compress=*/true)) {
    Values values;
    const auto& defaults = plain[table.path];
    for (const auto& [key, value] : table.values) {
      const auto found = defaults.find(key);
      if (always_shown(table.path, key) || found == defaults.end() || found->second != value)
        values.emplace_back(key, value);
    }
    const bool inner = table.path.find('.') != std::string::npos;
    if (!inner) {
      sections.push_back({table.path, std::move(values)});
    } else if (!values.empty()) {
      add_inner(table, values, sections.back());
    }
  }
  return sections;
}

std::string_view note_of(std::string_view section, std::string_view key) {
  const std::string path = section.empty() ? std::string(key) : str(section, ".", key);
  const auto note = std::ranges::find(kNotes, path, &Note::key);
  return note == kNotes.end() ? std::string_view{} : note->text;
}

/// Appends a line, with its note at its end, or above it if it is long.
void add_line(std::string line, std::string_view note, std::string& text) {
  constexpr size_t kNoteColumn = 34, kLongLine = 56;
  if (!note.empty() && line.size() > kLongLine) {
    text += str("# ", note, "\n");
  } else if (!note.empty()) {
    line.resize(std::max(line.size() + 2, kNoteColumn), ' ');
    line += str("# ", note);
  }
  text += line + "\n";
}

/// Returns a comment with the optimizers that the preset chooses; empty if the job has its own.
std::string chosen_optimizers(const Job& job) {
  if (!job.model.options.own_optimizer) return {};
  Job complete = job;
  if (!complete_job(complete)) return {};  // the caller reports the error when it loads the text
  const auto name = [](const OptimizerSpec& optimizer) {
    return str(info_of(optimizer.type).name, " with learning rate ",
               number_text(optimizer.learning_rate));
  };
  std::string text = str("# The preset chooses the optimizers: ", name(complete.optimizer));
  for (const OptimizerRule& rule : complete.optimizer_rules)
    text += str(";\n# for ", rule.variables, " ", name(rule.optimizer));
  return text +
         ".\n# A `type` or a `learning_rate` in the table [optimizer] replaces all of them.\n";
}

}  // namespace

std::string job_outline(const Job& given) {
  Job job = given;
  remove_added_ops(job);
  std::string text;
  for (const Section& section : sections_of(job)) {
    const bool is_optimizer = section.name == "optimizer";
    if (section.lines.empty() && !is_optimizer) continue;
    if (!section.name.empty() && !section.lines.empty()) text += str("\n[", section.name, "]\n");
    bool fields = false;
    for (const auto& [key, value] : section.lines) {
      if (key.starts_with("fields.") && !std::exchange(fields, true)) text += kFieldsNote;
      add_line(str(key, " = ", value), note_of(section.name, key), text);
    }
    if (section.name == "model") {
      if (const std::string chosen = chosen_optimizers(job); !chosen.empty()) text += "\n" + chosen;
    }
  }
  return text;
}

}  // namespace downpour
