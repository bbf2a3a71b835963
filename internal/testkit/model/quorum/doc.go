// Package quorum is the model of a lock that a majority of independent masters grants: vote.lua, renew.lua and release.lua, as
// package server has them, and clients that judge what the answers of masters are worth. It consists of tests.
//
// Bounds: three or five masters and two clients. Few requests are lost or late at a time, and few
// of these happen in a scenario: masters are started anew without their data or lose keys,
// processes die. The fields of voting are the bounds, and a scenario says what each of them is.
//
// Left out: re-entry, the hand-off within a client, messages that wake waiters, processes that stand still, and clocks that go
// at different speeds. TestVoteModelNotProtected shows two ways to a broken promise that remain.
package quorum
