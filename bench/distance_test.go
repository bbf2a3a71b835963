package main

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDistance: bytes arrive in order, and not before their time. What is sent at once does not take
// longer than one piece does.
func TestDistance(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	got := make(chan string, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		buf := make([]byte, 6)
		for n := 0; n < len(buf); {
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
		}
		got <- string(buf)
	}()
	const oneWay = 20 * time.Millisecond
	d, err := newDistance(ln.Addr().String(), oneWay)
	require.NoError(t, err)
	defer d.close()
	c, err := net.Dial("tcp", d.addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	began := time.Now()
	for _, text := range []string{"ab", "cd", "ef"} {
		_, err = c.Write([]byte(text))
		require.NoError(t, err)
	}
	require.Equal(t, "abcdef", <-got)
	require.GreaterOrEqual(t, time.Since(began), oneWay)
}
