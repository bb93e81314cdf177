// Descriptions of functions outside the program, by YAML files: the files in ../models, and those of the user.
// ../models/README.md documents the format.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

namespace analyze {

// A value that a description names: argN, argN+BYTES, *argN, *argN+BYTES, return, new, static, static(NAME), *static(NAME), unknown.
struct Operand {
  enum Kind { None, Argument, Pointee, Return, New, Static, StaticContents, Unknown } kind = None;
  unsigned index = 0;     // of the argument
  unsigned offset = 0;    // Argument, Pointee: in bytes
  std::string name = {};  // of library memory that functions share
};

struct StoreModel {  // *to = value
  Operand to, value;
};

struct MoveModel {  // contents of memory
  Operand to, from, bytes;
};

enum class CallRole {
  Callback,    // called before the library function returns
  Registered,  // called by functions that dispatch, later
  Thread,
  Signal,
  Exit,
};

struct CallModel {
  Operand function;
  std::vector<Operand> arguments;
  CallRole role = CallRole::Callback;
};

struct ExternalModel {
  // Arguments whose memory the function writes. Without a list: those that its prototype does not declare const.
  std::optional<std::vector<Operand>> writes;
  // Arguments whose memory it writes without reading it, as far as the program reads it later: a text up to its end.
  std::vector<Operand> overwrites;
  bool writes_varargs = false;
  std::vector<Operand> returns;
  std::vector<StoreModel> stores;
  std::vector<MoveModel> moves;
  std::vector<CallModel> calls;
  bool unknown_code = false;  // may load or run code that the module does not contain
};

struct ReceiveModel {
  std::string source;  // the file that describes it: "pcap", ...
  Operand packet;      // of the call, or of the callback
  Operand peer;        // its source address, if that is separate from the packet
  Operand callback;    // the library calls it for each packet; None: the function returns one packet
};

enum class OutputKind { Packet = 1, Log = 2, Both = 3 };

class Models {
 public:
  // Reads one file; a later description of a function replaces an earlier one.
  llvm::Error read(llvm::StringRef path);

  const ExternalModel *external(llvm::StringRef function) const { return find(externals_, function); }
  const ReceiveModel *receive(llvm::StringRef function) const { return find(receive_, function); }
  // The output of a call of the function, if any.
  std::optional<OutputKind> output(llvm::StringRef function) const {
    const auto found = outputs_.find(function);
    return found == outputs_.end() ? std::nullopt : std::optional(found->second);
  }
  // Whether a loop that calls the function waits there for the next event (select, pthread_cond_wait, ...).
  bool waits(llvm::StringRef function) const { return waits_.contains(function); }
  // ... for time only.
  bool sleeps(llvm::StringRef function) const { return sleeps_.contains(function); }
  // Whether the function calls registered callbacks (event_dispatch, ...).
  bool dispatches(llvm::StringRef function) const { return dispatches_.contains(function); }
  void forget_receive(llvm::StringRef function) { receive_.erase(function); }
  const llvm::StringMap<ReceiveModel> &receives() const { return receive_; }

 private:
  template <typename T>
  static const T *find(const llvm::StringMap<T> &map, llvm::StringRef key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }

  llvm::StringMap<ExternalModel> externals_;
  llvm::StringMap<ReceiveModel> receive_;
  llvm::StringMap<OutputKind> outputs_;
  llvm::StringSet<> waits_, sleeps_;
  llvm::StringSet<> dispatches_;
};

}  // namespace analyze
