// Strongly connected components of a graph whose nodes are numbers, by Tarjan's algorithm without recursion.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace analyze {

// Calls `found` with the nodes of each component, of which the last one was visited first. A component comes before those
// that lead to it.
// successors: from a node, a list of nodes that stays where it is.
template <typename Successors, typename Found>
void each_component(size_t count, Successors successors, Found found) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> index(count, kNone), low(count);
  std::vector<bool> on_stack(count, false);
  std::vector<uint32_t> stack, members;
  std::vector<std::pair<uint32_t, size_t>> frames;
  uint32_t next = 0;
  for (uint32_t root = 0; root < count; ++root) {
    if (index[root] != kNone) continue;
    frames.emplace_back(root, 0);
    while (!frames.empty()) {
      const uint32_t at = frames.back().first;
      if (frames.back().second == 0 && index[at] == kNone) {
        index[at] = low[at] = next++;
        stack.push_back(at);
        on_stack[at] = true;
      }
      const auto &list = successors(at);
      bool descends = false;
      while (!descends && frames.back().second < list.size()) {
        const uint32_t to = list[frames.back().second++];
        if (index[to] == kNone) {
          frames.emplace_back(to, 0);
          descends = true;
        } else if (on_stack[to]) {
          low[at] = std::min(low[at], index[to]);
        }
      }
      if (descends) continue;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().first] = std::min(low[frames.back().first], low[at]);
      if (low[at] != index[at]) continue;
      members.clear();
      do {
        members.push_back(stack.back());
        on_stack[stack.back()] = false;
        stack.pop_back();
      } while (members.back() != at);
      found(std::as_const(members));
    }
  }
}

// The number of each node's component, which is smaller than those of components that lead to it.
template <typename Successors>
std::vector<uint32_t> components(size_t count, Successors successors) {
  std::vector<uint32_t> numbers(count);
  uint32_t next = 0;
  each_component(count, successors, [&](const std::vector<uint32_t> &members) {
    for (const uint32_t member : members) numbers[member] = next;
    ++next;
  });
  return numbers;
}

}  // namespace analyze
