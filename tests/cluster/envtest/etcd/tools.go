//go:build tools

// Package tools names the program this module exists to build, so that go.sum covers it.
package tools

import _ "go.etcd.io/etcd/server/v3"
