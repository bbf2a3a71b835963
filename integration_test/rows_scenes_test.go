package integration_test

import (
	"fmt"
	"strings"
)

// scenes are states with which many rows begin. Owners with one letter are those of plain locks; u:h7 is a
// hold of the client u.
var scenes = map[string]string{
	"nothing":  "",
	"heldByA":  "LOCK{a=1}/10s TOKEN=5000/20s",
	"heldByB":  "LOCK{b=1}/10s TOKEN=5000/20s",
	"heldByC":  "LOCK{c:h1=1}/10s TOKEN=5000/20s",
	"heldByX":  "LOCK{x:h1=1}/10s TOKEN=5000/20s",
	"notALock": "LOCK=text/10s",

	"readBy7":    "LOCK{mode=read u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/60s",
	"readBy9":    "LOCK{mode=read u:h9=1}/60s TOKEN=5000/20s READS:u:h9=1/60s",
	"readBy79":   "LOCK{mode=read u:h7=1 u:h9=2}/60s TOKEN=5000/20s READS:u:h7=1/60s READS:u:h9=1/45s",
	"writeBy7":   "LOCK{mode=write u:h7:write=1}/60s TOKEN=5000/20s",
	"writeBy9":   "LOCK{mode=write u:h9:write=1}/60s TOKEN=5000/20s",
	"bothBy7":    "LOCK{mode=write u:h7:write=1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/40s",
	"leftReads7": "LOCK{mode=write u:h07:write=till@40s u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/60s",
	"overReads7": "LOCK{mode=write u:h07:write=till@-1 u:h7=1}/60s TOKEN=5000/20s READS:u:h7=1/60s",
	"waits8":     "WRITERS(u:h8@40s)/90s",

	"threeFree": "LOCK=3/60s TOKEN=5000/20s",
	"oneBy9":    "LOCK=2/60s TOKEN=5000/20s PERMITS(v:h9@60s)/60s",
	"twoBy9":    "LOCK=1/60s TOKEN=5000/20s PERMITS(v:h9@60s v:h9/2@60s)/60s",
	"threeBy9":  "LOCK=0/60s TOKEN=5000/20s PERMITS(v:h9@60s v:h9/2@60s v:h9/3@60s)/60s",
	"twoBy7":    "LOCK=1/60s TOKEN=5000/20s PERMITS(u:h7@40s u:h7/2@40s)/60s",
	"endedBy9":  "LOCK=1/60s TOKEN=5000/20s PERMITS(v:h9@-1 v:h9/2@-1)/60s",
	"line8":     "LINE(u:h8=8)/60s PLACES(u:h8@15s)/60s",
	"line8wide": "LINE(u:h8=8)/60s PLACES(u:h8@15s)/60s WANTS{u:h8=2}/60s",
	"line86":    "LINE(u:h8=8 u:h6=9)/60s PLACES(u:h6@15s u:h8@15s)/60s",
	"line8dead": "LINE(u:h8=8)/60s PLACES(u:h8@-1)/60s",
	"lapsed7": "LOCK=1/60s TOKEN=5000/20s PERMITS(u:h7@-1 v:h9@60s)/60s " +
		"LINE(u:h8=8)/60s PLACES(u:h7!@-500 u:h8@14s)/60s WANTS{u:h8=2}/60s",

	"three": "LOCK=3/30s",
	// As many fields as one lock may have, as far as scripts know; and one more: nobody looks at all of it.
	"fields128": "LOCK{" + someFields(128) + "}/10s",
	"fields129": "LOCK{" + someFields(129) + "}/10s",
}

func someFields(n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf("f%d=1", i)
	}
	return strings.Join(fields, " ")
}
