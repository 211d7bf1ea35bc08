// plan_hash: literal hashes. They must never change, because a run can only be resumed with a plan
// of the same hash. The values of enums are part of them.
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/str.h"
#include "shared/data/reading/read_plan.h"

namespace downpour::data {
namespace {

using Change = std::function<void(ReadPlan&)>;

uint64_t hash_after(const Change& change) {
  ReadPlan plan;
  plan.data.format = DataFormat::kCsv;
  plan.data.fields = {{.name = "label"}, {.name = "word", .type = FieldType::kString}};
  plan.files = {{.path = "/data/train", .bytes = 100, .fingerprint = 7}};
  plan.layout.floats = {{"label", 1}};
  plan.layout.bags = {{"word", 0}};
  plan.targets = {{"label", TargetKind::kBinary, 2}};
  std::vector<plan::ShardRange> shards = {{.file = 0, .begin = 0, .end = 100}};
  change(plan);
  return plan_hash(plan, shards);
}

Change with_format(DataFormat format) {
  return [=](ReadPlan& plan) { plan.data.format = format; };
}
Change with_op(TransformSpec op) {
  return [=](ReadPlan& plan) { plan.data.fields[1].transform = {op}; };
}
template <typename T>
Change with_data(T DataSpec::*member, T value) {
  return [=](ReadPlan& plan) { plan.data.*member = value; };
}

struct Case {
  const char* name;
  Change change;
  uint64_t hash;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"libsvm", with_format(DataFormat::kLibsvm), 6288718543287106844U},
      {"csv", with_format(DataFormat::kCsv), 3043278028970763744U},
      {"tsv", with_format(DataFormat::kTsv), 15968048612765385452U},
      {"criteo", with_format(DataFormat::kCriteo), 6387737611979565009U},
      {"mnist", with_format(DataFormat::kMnist), 849047429936677598U},
      {"tfrecord", with_format(DataFormat::kTfrecord), 14763077229274786799U},
      {"npy", with_format(DataFormat::kNpy), 7438513145579031324U},
      {"npz", with_format(DataFormat::kNpz), 4248464969294938705U},
      {"jsonl", with_format(DataFormat::kJsonl), 3562789674245925171U},
      {"libffm", with_format(DataFormat::kLibffm), 2119962744960706265U},
      {"hash", with_op(ops::Hash{.buckets = 16}), 457654869348753953U},
      {"log1p", with_op(ops::Log1p{}), 1517528749914771993U},
      {"clip", with_op(ops::Clip{.min = 0.5, .max = 2}), 2617969110528407570U},
      {"identity", with_op(ops::Identity{.buckets = 9, .fallback = 3}),
       8548675742756477409U},
      {"standardize", with_op(ops::Standardize{.mean = 1.5, .scale = 4}),
       11396348216126599184U},
      {"min_max", with_op(ops::MinMax{.min = -1, .max = 1}), 17258640940506546497U},
      {"bucketize", with_op(ops::Bucketize{.boundaries = {1, 2.5}}), 1581102916576008341U},
      {"vocabulary",
       with_op(ops::Vocabulary{.words = {"a", "b"}, .unknown = UnknownWord::kDrop}),
       875824208227246670U},
      {"vocabulary of a file",
       with_op(ops::Vocabulary{.file = "/v", .size = 3, .fingerprint = 11}),
       13065366717943775077U},
      {"tokens", with_op(ops::Tokens{.separators = ",", .lower = true, .ngrams = 2}),
       16808213432255902578U},
      {"truncate", with_op(ops::Truncate{.length = 5, .keep = "last"}),
       18202219019125388544U},
      {"pad", with_op(ops::Pad{.length = 5, .value = 0.25}), 2308643478307065562U},
      {"pool", with_op(ops::Pool{.how = "max"}), 15620412751853171016U},
      {"cross", with_op(ops::Cross{.buckets = 64, .fields = {"x", "y"}}),
       7172236008414859186U},
      {"dropout", with_op(ops::Dropout{.rate = 0.1}), 17799227447854738492U},
      {"noise", with_op(ops::Noise{.stddev = 0.5}), 420539294593466017U},
      {"crop", with_op(ops::Crop{.length = 7}), 11471587869985242141U},
      {"quantile", with_op(ops::Quantile{.boundaries = {1, 2.5}}),
       4222243405644447082U},
      {"header", with_data(&DataSpec::header, true), 7228538649983818333U},
      {"skip_lines", with_data(&DataSpec::skip_lines, 2U), 8314508743940434287U},
      {"delimiter", with_data<std::string>(&DataSpec::delimiter, ";"), 7019532603300695089U},
      {"quoted_newlines", with_data(&DataSpec::quoted_newlines, true), 10238014479484913409U},
      {"trim", with_data(&DataSpec::trim, true), 6869920115980263363U},
      {"missing", with_data<std::vector<std::string>>(&DataSpec::missing, {"?", "NA"}),
       17258588996665456558U},
      {"columns", with_data<std::vector<std::string>>(&DataSpec::columns, {"label", "word"}),
       15027432791929037690U},
      {"record", with_data<std::string>(&DataSpec::record, "tensor"), 7797787915663270438U},
      {"program", with_data<std::vector<std::string>>(&DataSpec::program, {"cat"}),
       3707693145422370224U},
      {"filter", with_data<std::string>(&DataSpec::filter, "label > 0"), 2561598785787227609U},
      {"interleave", with_data<InterleaveSpec>(&DataSpec::interleave, {.cycle = 4, .block = 2}),
       9246160094846194843U},
      {"shuffle off", with_data<std::string>(&DataSpec::shuffle, "off"), 302169846580403996U},
      {"shuffle 1000", with_data<std::string>(&DataSpec::shuffle, "1000"), 13638471885807013676U},
      {"bad_records", with_data(&DataSpec::bad_records, BadRecords::kSkip), 3043278028970763744U},
      {"int64", [](ReadPlan& plan) { plan.data.fields[1].type = FieldType::kInt64; },
       2484789553674068963U},
      {"column", [](ReadPlan& plan) { plan.data.fields[1].column = "w"; }, 7924232033745645905U},
      {"feature", [](ReadPlan& plan) { plan.data.fields[1].feature = "w"; }, 14066605036809528597U},
      {"path", [](ReadPlan& plan) { plan.data.fields[1].path = "w"; }, 6830426342438439590U},
      {"encoding", [](ReadPlan& plan) { plan.data.fields[1].encoding = "tensor"; },
       2092501907778299646U},
      {"shape", [](ReadPlan& plan) { plan.data.fields[1].shape = {-1}; }, 1350825833398452334U},
      {"default", [](ReadPlan& plan) { plan.data.fields[1].fallback = "0"; }, 2450766501768573792U},
      {"positive", [](ReadPlan& plan) { plan.data.fields[0].positive = {"yes"}; },
       11079988109207111453U},
      {"seed", [](ReadPlan& plan) { plan.seed = 2; }, 5624975915731565201U},
      {"batch_size", [](ReadPlan& plan) { plan.batch_size = 64; }, 10731939456283838524U},
      {"drop_remainder", [](ReadPlan& plan) { plan.drop_remainder = true; }, 15389375422129820629U},
      {"batches_max", [](ReadPlan& plan) { plan.batches_max = 5; }, 3819199443196375543U},
      {"holdout", [](ReadPlan& plan) { plan.holdout = 0.1; }, 6310587018037612532U},
      {"source", [](ReadPlan& plan) { plan.source = {.skip = 1, .take = 9, .shard_count = 2}; },
       18160190042062623836U},
      {"mix",
       [](ReadPlan& plan) {
         plan.source.parts = {{.paths = 1, .weight = 0.5, .files = 1, .record_bytes = 20}};
       },
       4155914411105667242U},
      {"width", [](ReadPlan& plan) { plan.layout.floats[0].width = 3; }, 15882509307317016678U},
      {"target",
       [](ReadPlan& plan) {
         plan.targets[0] = {"label", TargetKind::kClass, 7};
       },
       1979629946174689497U},
  };
  return all;
}

TEST_CASE("the hash of a plan stays the same for each format, op and option", "[data]") {
  std::string wrong;
  for (const Case& each : cases()) {
    const uint64_t hash = hash_after(each.change);
    if (hash != each.hash) wrong += str(each.name, ": ", hash, "\n");
  }
  INFO("plans with another hash, and that hash:\n" << wrong);
  CHECK(wrong.empty());
}

TEST_CASE("each setting gives a plan of its own", "[data]") {
  std::map<uint64_t, std::string> seen;
  for (const Case& each : cases()) {
    const auto [other, is_new] = seen.emplace(hash_after(each.change), each.name);
    // bad_records does not decide what a batch is; csv is the format of all cases.
    const bool same = std::string(each.name) == "bad_records";
    INFO(each.name << " has the hash of " << other->second);
    CHECK(is_new != same);
  }
}

}  // namespace
}  // namespace downpour::data
