package faultproxy

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDistance: everything arrives, in order, each way; also what was sent before a side closed.
func TestDistance(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	echoed := make(chan []string, 1)
	go func() {
		var lines []string
		defer func() { echoed <- lines }()
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for in := bufio.NewScanner(conn); in.Scan(); {
			lines = append(lines, in.Text())
			if _, err := fmt.Fprintln(conn, in.Text()); err != nil {
				return
			}
		}
	}()
	conn, err := net.Dial("tcp", Distance(t, ln.Addr().String(), 20*time.Millisecond))
	require.NoError(t, err)
	var sent []string
	in := bufio.NewScanner(conn)
	for i := range 50 {
		sent = append(sent, fmt.Sprint("line ", i))
		begun := time.Now()
		_, err = fmt.Fprintln(conn, sent[i])
		require.NoError(t, err)
		if i%10 == 0 { // the others go together
			for got := ""; got != sent[i]; got = in.Text() {
				require.True(t, in.Scan())
			}
			require.GreaterOrEqual(t, time.Since(begun), 40*time.Millisecond, "never earlier")
		}
	}
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	for in.Scan() {
	}
	require.NoError(t, conn.Close())
	require.Equal(t, sent, <-echoed)
}
