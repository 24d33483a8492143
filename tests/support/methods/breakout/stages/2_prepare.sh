#!/bin/sh
echo "2_prepare"
