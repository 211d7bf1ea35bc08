// Drives one PsCore by lines of text and prints its effects as lines of text: the language of
// tests/scenarios/ps_*.txt. A line at the margin is a command, one with two spaces an effect.
//
//   ps [bits=2] [incarnation=1] [silence_s=0] [handles=64] [copy_bytes= unwritten_bytes=]
//       A fresh core. Table 0: a weight a key; table 1: a dense bias of 2; SGD, learning rate 1.
//   adopt SINCE PARTITIONS [sealed=] [folder= [images=]]
//   view ID me=PARTITIONS@SINCE;... other=...
//   status round= epoch= shards= / save ID FOLDER / sealed EPOCHS / stop CODE REASON
//       From the chief.
//   pull wWORKER req= view= keys=TABLE:KEY,...;... [handle|eval]
//   push wWORKER BATCH req= view= covered= records= hash= keys= gradients=
//       [handle=] [fragment=i/n] [pulled=] [loss=]
//   end wWORKER BATCH req= view= covered= applied= hash= [read=]
//   copy
//       One turn of a save; needed where the core was made with copy_bytes=, else done at once.
//   loaded [ERROR] / stored [ERROR]
//       Completions, oldest first; stored: of all that was given out to be stored.
//   tick MILLISECONDS / values
//
// Messages pass through the wire's codec both ways: what does not arrive is said so.
// The key p2.1 is the second smallest key (counted from 0) of partition 2 in its table.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ps/core/ps_core.h"

namespace downpour::ps {

/// The words and key=value pairs of one command.
struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
  std::string option(const std::string& name, const std::string& otherwise = "") const;
  uint64_t number(const std::string& name, uint64_t otherwise = 0) const;
};
Command parse_command(const std::string& line);

class PsScript {
 public:
  /// Runs one command; returns the effects, one a line, each indented by two spaces.
  std::string run(const std::string& line);

 private:
  void start(const Command& command);
  void message(PeerKey from, const Command& command, wire::Body body, Bytes keys = {},
               Bytes values = {});
  void adopt(const Command& command);
  void view(const Command& command);
  void pull(const Command& command);
  void push(const Command& command, bool end);
  void loaded(const Command& command);
  void stored(const Command& command);
  void exported(const Command& command);
  std::string values() const;
  std::string print_effects();
  std::string print(const Send& send) const;
  Bytes keys_of(const std::string& text, std::vector<wire::Section>& sections) const;

  PsConfig config_;
  std::unique_ptr<PsCore> core_;
  Effects effects_;
  std::string malformed_;  // what the codec says of a command's message that no frame can carry
  int64_t now_ns_ = 0;
  std::vector<Load> loads_;
  std::vector<Store> stores_;
  std::vector<Export> exports_;
  std::map<ViewId, std::vector<wire::ImageRef>> refs_;
  bool copies_at_once_ = true;
  std::map<std::string, std::vector<checkpoint::PartitionImage>> folders_;
};

}  // namespace downpour::ps
