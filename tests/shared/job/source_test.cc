// Sources of jobs: selections, lists and programs, and the programs between a source and its
// batches.
#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

TEST_CASE("a source may select a part of its records, but prints the selection", "[job]") {
  const auto job_of = [](const char* source) {
    return str("data.format = \"libsvm\"\nmodel = { preset = \"logistic_regression\" }\n", source);
  };
  const Job job =
      completed(job_of("data.sharding = \"data\"\ndata.source = { path = [\"a\", \"b\"], "
                       "skip = 5, take = 100, shard = { count = 4, index = 3 } }\n"
                       "cluster.workers = 3\n"));
  CHECK(job.data.source.paths == std::vector<std::string>{"a", "b"});
  CHECK(job.data.source.skip == 5);
  CHECK(job.data.source.take == 100);
  CHECK(job.data.source.shard_count == 4);
  CHECK(job.data.source.shard_index == 3);
  CHECK(job.data.streams == 3);  // as many as workers, and fixed from then on
  // What belongs to the other format does not apply, and a table brings its names.
  const SourceSpec lines{.paths = {"b"}, .format = DataFormat::kJsonl};
  const DataSpec table{
      .format = DataFormat::kCsv, .header = true, .skip_lines = 1, .delimiter = ";"};
  CHECK(for_source(table, lines) == DataSpec{.format = DataFormat::kJsonl});
  CHECK(for_source(table, {.paths = {"b"}, .format = DataFormat::kCsv}) == table);
  const SourceSpec cells{.paths = {"b"}, .format = DataFormat::kCsv};
  CHECK(for_source({.format = DataFormat::kJsonl}, cells) ==
        DataSpec{.format = DataFormat::kCsv, .header = true});
  const DataSpec named{.format = DataFormat::kTsv, .columns = {"x"}};
  CHECK_FALSE(for_source(named, cells).header);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(*again == job);

  CHECK(
      error_of(job_of("data.source = { path = \"a\", shard = { count = 2, index = 2 } }\n")).hint ==
      "the index starts at 0: shard = { count = 2, index = 1 }");
  CHECK(error_of(job_of("data.source = { path = \"a\", repeat = 3, take = 10 }\n"))
            .what.find("a repeated source with skip, take or shard") != std::string::npos);
  CHECK(error_of(job_of("data.source = [{ path = \"a\", take = 1 }, \"b\"]\n"))
            .hint.find("set skip, take and shard for the whole source: source = { path = [...], "
                       "take = 1000 }") != std::string::npos);
  CHECK(error_of(job_of("data.source = { path = \"a\", shard = 2 }\n")).what.find("a table") !=
        std::string::npos);
  CHECK(error_of(small_job("data.streams = 2\n")).what ==
        "`streams` needs another `sharding` than \"auto\"");
}

TEST_CASE("the format of the training source is the data's, that of an evaluation may differ",
          "[job]") {
  const std::string model = "model.preset = \"logistic_regression\"\nmodel.target = \"label\"\n";
  const Job job = loaded(
      "data.source = { path = \"a\", format = \"libsvm\" }\n"
      "eval.source = { path = \"b\", format = \"tfrecord\" }\n" +
      model);
  CHECK(job.data.format == DataFormat::kLibsvm);
  CHECK(job.data.source.format == DataFormat::kAuto);
  CHECK(for_source(job.data, job.data.source).format == DataFormat::kLibsvm);
  CHECK(for_source(job.data, job.eval.source).format == DataFormat::kTfrecord);
  const auto again = job_from_toml(job_to_toml(job), job.base_dir);
  REQUIRE(again);
  CHECK(again->eval == job.eval);
  CHECK(loaded("data.source = [{ path = \"a\", format = \"libsvm\" }, { path = \"b\", format = "
               "\"libsvm\" }]\n" +
               model)
            .data.format == DataFormat::kLibsvm);
  CHECK(error_of("data.source = [{ path = \"a\", format = \"libsvm\" }, \"b\"]\n" + model)
            .hint.find("downpour shard --to") != std::string::npos);
  const Error both = error_of(
      "data.format = \"csv\"\ndata.source = { path = \"a\", format = \"libsvm\" }\n" + model);
  CHECK(both.what.find("`data.source.format` and `data.format` differ") != std::string::npos);
  CHECK(both.where == "/jobs/job.toml:2:38");
}

TEST_CASE("in a list all sources or none have a weight, and records count `repeat` times",
          "[job]") {
  const auto job_of_source = [](const std::string& source, const std::string& more = "") {
    return "data.source = " + source + "\ndata.format = \"libsvm\"\n" + more +
           "model.preset = \"logistic_regression\"\nmodel.target = \"label\"\n";
  };
  const Job mix = loaded(job_of_source(
      "[{ path = [\"a\", \"b\"], weight = 0.7 }, { path = \"c\", weight = 0.3, repeat = 2 }]"));
  CHECK(mix.data.source.paths == std::vector<std::string>{"a", "b", "c"});
  CHECK(mix.data.source.is_mix());
  REQUIRE(mix.data.source.parts.size() == 2);
  CHECK(mix.data.source.parts[0] == SourcePart{.paths = 2, .weight = 0.7});
  CHECK(mix.data.source.parts[1] == SourcePart{.paths = 1, .weight = 0.3, .repeat = 2});
  CHECK(job_from_toml(job_to_toml(mix), mix.base_dir)->data.source == mix.data.source);
  const Job twice = loaded(job_of_source("{ path = \"a\", repeat = 2 }"));
  CHECK(twice.data.source.parts == std::vector{SourcePart{.paths = 1, .repeat = 2}});
  CHECK(job_from_toml(job_to_toml(twice), twice.base_dir)->data.source == twice.data.source);
  CHECK(loaded(job_of_source("[{ path = \"a\" }, \"b\"]")).data.source.parts.empty());
  CHECK(loaded(job_of_source("[\"-\", \"range:9\", \"@list\"]")).data.source.paths.size() == 3);

  const auto what = [&](const std::string& source, const std::string& more = "") {
    return error_of(job_of_source(source, more)).what;
  };
  const std::string two = "[{ path = \"a\", weight = 1.0 }, { path = \"b\", weight = 2.0 }]";
  CHECK(what("{ path = \"a\", weight = 1.0 }").find("a single source with a weight") !=
        std::string::npos);
  CHECK(what("[{ path = \"a\", weight = 1.0 }, \"b\"]").find("only some have a weight") !=
        std::string::npos);
  CHECK(what(two, "data.sharding = \"file\"\n") == "sources with weights do not support streams");
  CHECK(what(two, "data.interleave = { cycle = 2 }\n") ==
        "`interleave` does not support sources with weights");
  CHECK(what(two, "eval.holdout = 0.1\n").find("`holdout` does not support") != std::string::npos);
  CHECK(what("{ path = \"a\", repeat = 2 }", "eval.holdout = 0.1\n")
            .find("`holdout` does not support a source with `repeat`") != std::string::npos);
  CHECK(what("\"a\"", "eval.source = { path = \"b\", repeat = 2 }\n") ==
        "`weight` and `repeat` are for training sources only");
  for (const char* bad :
       {"range:", "range:0", "range:5x", "range:2000000000", "s3://", "s3://b", "s3://b/",
        "s3:///k", "synth:", "synth:0", "synth:5,", "synth:5,,ids=3", "synth:5,rows=3",
        "synth:5,ids=0", "synth:5,ids=x", "synth:5,ids=400000", "synth:5,numeric=0,categorical=0",
        "synth:5,format=json", "synth:5,zipf=nan"})
    CHECK(what("\"" + std::string(bad) + "\"").find("can't be") != std::string::npos);
  // These paths stay as written: they are not relative to the job.
  CHECK(loaded(job_of_source("\"synth:9,ids=5\"")).data.source.paths.front() == "synth:9,ids=5");
  CHECK(loaded(job_of_source("[\"s3://b/2024/*.tsv\", \"a\"]")).data.source.paths.front() ==
        "s3://b/2024/*.tsv");
}

TEST_CASE("an interleave and a shuffle window are read and printed", "[job]") {
  const Job job =
      loaded(small_job("data.interleave = { cycle = 8, block = 16 }\ndata.shuffle = 10000\n"));
  CHECK(job.data.interleave == InterleaveSpec{8, 16});
  CHECK(job.data.shuffle_records() == 10000);
  CHECK(job_to_toml(job).find("shuffle = 10000\n") != std::string::npos);
  CHECK(job_from_toml(job_to_toml(job), job.base_dir)->data.interleave == job.data.interleave);
  CHECK(job_from_toml(job_to_toml(job), job.base_dir)->data.shuffle == job.data.shuffle);
  CHECK(loaded(small_job(""), {{"data.shuffle", "64", "--set"}}).data.shuffle_records() == 64);
  for (const char* bad : {"data.shuffle = 0", "data.shuffle = \"10 k\"", "data.shuffle = true",
                          "data.interleave = { block = 2 }", "data.interleave = { cycle = 0 }"}) {
    INFO(bad);
    CHECK(error_of(small_job(std::string(bad) + "\n")).code == ErrorCode::kConfig);
  }
}

TEST_CASE("a program as source is read, and missing settings are named", "[job]") {
  const std::string model = "model.preset = \"logistic_regression\"\nmodel.target = \"label\"\n";
  const auto error = [&](const std::string& data) { return error_of(data + model).what; };
  const std::string program = "data.source = { exec = [\"a\", \"b\"]";
  const auto loaded = load_text(program + ", replay = \"shard\", records = 100, take = 7 }\n" +
                                "data.format = \"libsvm\"\n" + model);
  REQUIRE(loaded);
  const SourceSpec& source = loaded->job.data.source;
  CHECK(source.exec == std::vector<std::string>{"a", "b"});
  CHECK(source.replay == Replay::kShard);
  CHECK(source.records == 100);
  CHECK(source.take == 7);
  CHECK(job_from_toml(job_to_toml(loaded->job), "/jobs")->data.source == source);

  CHECK(error(program + ", path = \"x\" }\n").find("both files and a program") !=
        std::string::npos);
  CHECK(
      error("data.source = [\"x\", { exec = [\"a\"] }]\n").find("a list that contains a program") !=
      std::string::npos);
  CHECK(error(program + " }\n") == "the format of the program's output is not known");
  CHECK(error(program + " }\ndata.format = \"csv\"\n") ==
        "the names of the columns that the program writes are not known");
  CHECK(error(program + " }\ndata.format = \"libsvm\"\ndata.skip_lines = 1\n")
            .find("the output of a program must not have a header or lines to skip") !=
        std::string::npos);
  CHECK(error(program + ", replay = \"shard\" }\ndata.format = \"libsvm\"\n") ==
        "replay = \"shard\" needs `records`");
  CHECK(error(program + " }\ndata.format = \"libsvm\"\neval.holdout = 0.1\n") ==
        "`holdout` does not support a program as source");
  const std::string once = program + ", replay = \"none\"";
  CHECK(load_text(once + " }\ndata.format = \"libsvm\"\neval.holdout = 0.1\n" + model));
  CHECK(error(once + ", records = 9 }\ndata.format = \"libsvm\"\n") ==
        "replay = \"none\" does not support `records`");
  CHECK(error(once + ", format = \"npy\" }\ndata.fields = { x = {}, label = {} }\n") ==
        "replay = \"none\" does not support npy");
  const std::string fields = "data.fields = { x = { path = \"a\" }, label = {} }\n";
  CHECK(completed(program + ", format = \"npy\" }\ndata.columns = [\"label\", \"a\", \"b\"]\n" +
                  fields + model)
            .data.columns.size() == 3);
  CHECK(error(program + ", format = \"npy\" }\ndata.columns = [\"label\"]\n" + fields) ==
        "there is no array `a`");
  CHECK(error(program + ", format = \"npz\" }\n" + fields) ==
        "a program as source can't write this format");
  CHECK(error(program + " }\ndata.format = \"mnist\"\n") ==
        "a program as source can't write this format");
  CHECK(error("data.source = { path = \"x\", records = 5 }\ndata.format = \"libsvm\"\n") ==
        "`replay` and `records` are for programs only");
}

TEST_CASE("a program between the files and the fields must say what it reads and writes", "[job]") {
  const std::string model = "model.preset = \"logistic_regression\"\n";
  const auto error = [&](const std::string& text) {
    return error_of(text + "data.source = \"x\"\n" + model).what;
  };
  const std::string program = "data.program = [\"python3\", \"enrich.py\"]\n";
  const auto loaded =
      load_text("data.source = \"x\"\ndata.format = \"libsvm\"\n" + program + model);
  REQUIRE(loaded);
  const DataSpec& data = loaded->job.data;
  CHECK(data.program == std::vector<std::string>{"python3", "enrich.py"});
  CHECK(job_from_toml(job_to_toml(loaded->job), "/jobs")->data.program == data.program);

  CHECK(error(program) == "the format of the program's input and output is not known");
  CHECK(error(program + "data.format = \"tsv\"\n") ==
        "the names of the columns that the program writes are not known");
  CHECK(error(program + "data.format = \"npy\"\n") ==
        "data.program does not support arrays and images");
  CHECK(error("data.program = [\"\"]\ndata.format = \"libsvm\"\n") ==
        "data.program does not name a program");
  CHECK(error(program + "data.format = \"libsvm\"\neval.source = { path = \"y\", format = "
                        "\"mnist\" }\n") == "data.program does not support arrays and images");
}

}  // namespace
}  // namespace downpour::test
