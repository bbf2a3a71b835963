package integration_test

import (
	"strconv"

	"github.com/holdfast-go/holdfast/lua"
)

// A hash of so many fields is no lock: nobody looks at all of it.
var (
	manyFields = someFields(129)
	noMore     = someFields(128) // may be one, as far as scripts know
)

func someFields(n int) string {
	text := "HSET LOCK"
	for i := range n {
		text += " f" + strconv.Itoa(i) + " 1"
	}
	return text + "; PEXPIRE LOCK 10000"
}

// manyHash is manyFields as a row expects it.
func manyHash() string {
	hash := map[string]string{}
	for i := range 129 {
		hash["f"+strconv.Itoa(i)] = "1"
	}
	return hashText(hash)
}

var manyRows = []row{
	{
		name: "many fields", script: lua.State, before: manyFields, reply: "!HOLDFAST", same: true,
		cut: "fields > 128", paste: "fields > 129",
	},
	{
		name: "many fields", script: lua.FairState, before: manyFields, reply: "!HOLDFAST", same: true,
		cut: "n > look then return n", paste: "n > look + 1 then return n",
	},
	{
		name: "many fields", script: lua.Vote, args: "a 30000 3600000 1 6000", before: manyFields,
		reply: "0 ttl:10000 error 0 clock", same: true,
		cut: "fields .. ' fields'", paste: "''",
	},
	{
		name: "as many fields as are looked at", script: lua.Vote, args: "a 30000 3600000 1 6000", before: noMore,
		reply: "0 ttl:10000 error 0 clock", same: true,
		cut: "fields > 128 and fields .. ' fields'", paste: "fields > 127 and ''",
	},
	{
		name: "many fields", script: lua.FairPoll, args: fairPoll, before: manyFields,
		reply: "1 ttl:10000 clock error '' '' ''", same: true,
		cut: "return n .. ' fields'", paste: "return",
	},
	{
		name: "many fields", script: lua.FairAcquire, args: "a:h1 30000 3600000 0 15000 1000 PUBLISH",
		before: manyFields,
		reply:  "0 ttl:10000 clock 1 129", hash: manyHash(), lease: 10000,
		fair: fair{queue: "a:h1+15000", life: 3615000},
		cut:  "if fields > 4 then", paste: "if false then",
	},
}
