#!/bin/sh
echo "1_read"
