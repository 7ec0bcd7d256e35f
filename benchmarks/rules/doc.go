// Package rules has the decision rules of other routers, as comparison policies of a simulated fleet: what they would choose,
// from what they know, with their constants. They are for comparison only, no part of the product, and no substitute for the
// routers themselves: the network, the costs of parsing and queues of their own are left out.
//
// The formulas are those of each project's source and documentation in autumn 2026; the file of each rule names them. Common
// to all, and our guess where a project leaves it open:
//
//   - Each rule counts its own requests, and has an index of prefixes of its own. It knows its own decisions alone, or, in the
//     rules that hear them ([Rule.Hears]), the engines' cache events, as late and lossy as the scenario says. Blocks are those of
//     the workload, 64 tokens and more; units of characters are taken as four to a token, and bounds are kept in tokens.
//   - A rule that reads engines reads them at its project's own period where that is shorter than the scenario's ([Rule.Reads]).
//     A gauge that was never read is 0.
//   - Where nobody listens at the choice, the rule chooses again among the others, three times in all.
//   - Ties are broken at random unless the file says otherwise.
package rules
